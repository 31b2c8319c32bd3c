"""The brokers that are compared, each a process of its own on a core of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tools.peers.fetch import available, go_programs
from tools.peers.kafka_broker import kafka_broker
from tools.peers.pins import KAFKA_VERSION, Peer

HEARTBEAT_MS = 200  # of members that wait for a rebalance: short, or all that is measured is the interval
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
BROKER_CORE, LOAD_CORE = 0, 1


class Target(NamedTuple):
    """A running broker."""

    name: str
    host: str
    port: int
    pid: int

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_kafka(self) -> bool:
        return self.name.startswith("Apache Kafka")


def pin(pid: int, core: int) -> None:
    """Keep a process, with all its threads, on one core where the machine has two."""
    if (os.cpu_count() or 1) < 2:
        return
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


@contextmanager
def kohort(name: str = "Kohort", *options: str) -> Iterator[Target]:
    """``kohort serve`` on a temporary directory."""
    data = tempfile.mkdtemp(prefix="kohort-bench-")
    settings = [part for pair in SETTINGS.items() for part in ("--set", "=".join(pair))]
    command = [sys.executable, "-m", "kohort.cli.main", "serve", "--listen", "127.0.0.1:0", "--data", data]
    process = subprocess.Popen(
        [*command, *settings, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        host, _, port = line.rsplit(" ", 1)[1].strip().rpartition(":")
        pin(process.pid, BROKER_CORE)
        yield Target(name, host, int(port), process.pid)
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def apache_kafka() -> Iterator[Target]:
    """Apache Kafka from Maven, one node, KRaft."""
    with kafka_broker(SETTINGS) as broker:
        pin(broker.pid, BROKER_CORE)
        yield Target(f"Apache Kafka {KAFKA_VERSION}", broker.host, broker.port, broker.pid)


@contextmanager
def kfake() -> Iterator[Target]:
    """franz-go's fake cluster: groups and data in memory, nothing durable."""
    process = subprocess.Popen(
        [str(go_programs(optimized=True) / "kfake")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().rsplit(" ", 1)[1].strip().rpartition(":")
        pin(process.pid, BROKER_CORE)
        yield Target("kfake (memory)", host, int(port), process.pid)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def peers(stack: ExitStack) -> tuple[list[Target], list[str]]:
    """Every peer that can be had here, and the reasons why the others cannot."""
    found, reasons = [], []
    for peer, start in ((Peer.KAFKA, apache_kafka), (Peer.GO, kfake)):
        reason = available(peer)
        if reason is None:
            found.append(stack.enter_context(start()))
        else:
            reasons.append(reason)
    return found, reasons


def settle(seconds: float = 0.3) -> None:
    """Let the machine come to rest between two measurements."""
    time.sleep(seconds)
