"""The brokers that tests run against: the oracle and Kohort, each started once for a whole run."""

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest
from tools.peers import probe
from tools.peers.cache import ROOT

from kohort.testing.cluster import Cluster

LISTENING = "kohort: listening on "
START_SECONDS = 60.0
# Spelled as Kafka spells them; both brokers get the same.
SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "5",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
}


also_on_nodes = pytest.mark.parametrize("target", ["kafka", "kohort", "nodes"], indirect=True)
"""For a test that also runs on three nodes with a PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Target:
    """A broker under test. ``data`` is its directory of partitions."""

    name: str
    bootstrap: str
    data: Path

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.bootstrap.rsplit(":", 1)
        return host, int(port)


def kohort_missing() -> str | None:
    """Why Kohort cannot be started here; None when it can."""
    try:
        found = importlib.util.find_spec("kohort.cli.main")
    except ModuleNotFoundError:
        found = None
    return None if found is not None else "kohort: its command line is not installed here"


def kohort_command(data: Path, settings: Mapping[str, str]) -> list[str]:
    """The command line of a broker on a free port."""
    program = str(Path(sys.executable).parent / "kohort")
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return [program, "serve", "--listen", "127.0.0.1:0", "--data", str(data), *options]


def _read_address(process: "subprocess.Popen[str]", errors: IO[str]) -> str:
    stream = process.stdout
    assert stream is not None
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        line = stream.readline()
        if line.startswith(LISTENING):
            return line.removeprefix(LISTENING).strip()
        if not line:
            break
    errors.seek(0)
    raise RuntimeError(f"kohort did not say where it listens:\n{errors.read()[-4000:]}")


@contextmanager
def kohort_broker(data: Path, settings: Mapping[str, str] | None = None) -> Iterator[Target]:
    """``kohort serve`` on a free port, ready for requests, stopped when the block ends."""
    with tempfile.TemporaryFile("w+") as errors:
        command = kohort_command(data, SETTINGS if settings is None else settings)
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            target = Target("kohort", _read_address(process, errors), data)
            probe.ask_api_versions(*target.address)
            yield target
        finally:
            process.terminate()
            try:
                process.wait(60.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def kohort_nodes() -> Iterator[Target]:
    """Three nodes with a PostgreSQL. Clients know the address of one and find the others."""
    with Cluster(3, configs=SETTINGS) as cluster:
        yield Target("nodes", cluster.nodes[0].bootstrap, Path())
