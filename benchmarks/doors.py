"""What security costs: TLS beside none, on Kohort and on Apache Kafka, and a check of ACLs with many rules.

``python -m benchmarks.doors`` prints the tables of this module alone. Requests are sent by the compiled
generator; they are prepared at a listener without TLS of the same broker.
"""

import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tools.peers.fetch import available
from tools.peers.kafka_broker import secured_kafka
from tools.peers.pins import KAFKA_VERSION, Peer

from benchmarks.groups import make_topic, on_loop
from benchmarks.pipeline import connect, request_frame
from benchmarks.processes import processor_seconds
from benchmarks.requests import Exchange, Measured, exchanges, generate, heartbeat
from benchmarks.rounds import Table
from benchmarks.targets import BROKER_CORE, SETTINGS, Target, pin, settle
from benchmarks.throughput import MIB, _batch, _fetch, _produce, hammer_count
from kohort.security.acls import (
    Acl,
    AclResourceType,
    Authorizer,
    Operation,
    PatternType,
    Permission,
    Question,
)
from kohort.security.certs import DevAuthority

RULES = 10_000
_CHECKS = 200_000
_TOPIC = "doors"


class SecuredTarget(NamedTuple):
    """A broker with two listeners, and what its certificate is signed by."""

    plain: Target
    tls: Target
    authority: Path


def acl_tables(rounds: int) -> list[Table]:
    """Microseconds of processor time for one question."""
    kinds = (PatternType.LITERAL, PatternType.PREFIXED)
    rules = [
        Acl(AclResourceType.TOPIC, f"topic-{number}", kinds[number % 2], f"User:u{number % 100}", "*",
            Operation.READ, Permission.ALLOW)
        for number in range(RULES)
    ]  # fmt: skip
    table = Table(f"A check of ACLs with {RULES:,} rules", "µs", higher_is_better=False)
    asked = [
        Question(
            f"User:u{number % 100}", "10.0.0.1", Operation.READ, AclResourceType.TOPIC, f"topic-{number}"
        )
        for number in range(RULES)
    ]
    for _ in range(rounds):
        authorizer = Authorizer(rules)
        began = time.process_time()
        for question in asked:
            authorizer.may(question)
        table.add("the first time", 1e6 * (time.process_time() - began) / len(asked))
        known = asked[:100]
        for question in known:
            authorizer.may(question)
        began = time.process_time()
        for _ in range(_CHECKS // len(known)):
            for question in known:
                authorizer.may(question)
        table.add("a known answer", 1e6 * (time.process_time() - began) / _CHECKS)
    return [table]


# Brokers with TLS


@contextmanager
def kohort_with_tls(directory: Path) -> Iterator[SecuredTarget]:
    settings = SETTINGS | {"ssl.keystore.location": str(directory / "broker.pem")}
    command = [
        *(sys.executable, "-m", "kohort.cli.main", "serve", "--data", str(directory / "data")),
        *("--listen", "127.0.0.1:0", "--listen", "SSL://127.0.0.1:0"),
        *(part for pair in settings.items() for part in ("--set", "=".join(pair))),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            ports = [int(re.findall(r":(\d+)$", process.stdout.readline().strip())[0]) for _ in range(2)]
            pin(process.pid, BROKER_CORE)
            plain, tls = (
                Target(name, "127.0.0.1", port, process.pid)
                for name, port in zip(("Kohort", "Kohort, TLS"), ports, strict=True)
            )
            yield SecuredTarget(plain, tls, directory / "ca.pem")
        finally:
            process.terminate()


@contextmanager
def kafka_with_tls(directory: Path) -> Iterator[SecuredTarget]:
    with secured_kafka(directory, {"admin": "secret"}, directory / "kafka", SETTINGS) as kafka:
        pin(kafka.broker.pid, BROKER_CORE)
        name, host = f"Apache Kafka {KAFKA_VERSION}", "127.0.0.1"
        yield SecuredTarget(
            Target(name, host, kafka.broker.port, kafka.broker.pid),
            Target(f"{name}, TLS", host, kafka.ports["SSL"], kafka.broker.pid),
            directory / "ca.pem",
        )


def handshake_cost(target: SecuredTarget, count: int) -> tuple[float, float]:
    """Handshakes per second of one client, and milliseconds of the broker's processor for each."""
    context = ssl.create_default_context(cafile=target.authority)
    before, began = processor_seconds(target.tls.pid), time.perf_counter()
    for _ in range(count):
        with (
            socket.create_connection((target.tls.host, target.tls.port)) as raw,
            context.wrap_socket(raw, server_hostname="localhost"),
        ):
            pass
    elapsed = time.perf_counter() - began
    return count / elapsed, 1e3 * (processor_seconds(target.tls.pid) - before) / count


def prepared_fetch(target: Target) -> Exchange:
    """A Fetch of 1 MiB, and its reply."""

    async def run() -> Exchange:
        await make_topic(target, _TOPIC)
        pipe = await connect(target.host, target.port)
        await hammer_count(pipe, request_frame(_produce(_TOPIC, _batch(1_000, 900)), 8), 4)
        request = _fetch(_TOPIC, 1, MIB)
        await pipe.call(request, 11)
        pipe.transport.close()
        return Exchange(request_frame(request, 11), pipe.last_frame)

    return on_loop(run())


def tls_tables(targets: list[SecuredTarget], seconds: float, rounds: int) -> list[Table]:
    rate = Table("TLS 1.3 handshakes of one client, one after another", "handshakes/s")
    cost = Table("The same: processor time of the broker", "ms", higher_is_better=False)
    beats = Table("Heartbeats, 50 connections, one in flight", "requests/s")
    beat_cost = Table("The same: processor time of the broker", "µs", higher_is_better=False)
    fetched = Table("Fetch, pieces of 1 MiB, 2 in flight", "MB/s")
    fetch_cost = Table("The same: processor time of the broker for 1 MiB", "µs", higher_is_better=False)
    for _ in range(rounds):
        for each in targets:
            per_second, milliseconds = handshake_cost(each, 200)
            rate.add(each.tls.name, per_second)
            cost.add(each.tls.name, milliseconds)
            members, fetch = exchanges(each.plain, heartbeat, 50), prepared_fetch(each.plain)
            for target, authority in ((each.plain, None), (each.tls, each.authority)):
                settle()
                beaten: Measured = generate(target, members, 1, seconds, authority)
                beats.add(target.name, beaten.rate)
                beat_cost.add(target.name, beaten.processor_us)
                read = generate(target, [fetch], 2, seconds, authority)
                fetched.add(target.name, read.rate * len(fetch.reply) / 1e6)
                fetch_cost.add(target.name, read.processor_us)
    return [rate, cost, beats, beat_cost, fetched, fetch_cost]


def tables(rounds: int, seconds: float) -> list[Table]:
    """Everything of this module; Kafka's part only where it can be had."""
    found = acl_tables(rounds)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="doors-")))
        authority = DevAuthority(datetime.now(UTC))
        (directory / "ca.pem").write_text(authority.certificate)
        (directory / "broker.pem").write_text(authority.issue("broker"))
        targets = [stack.enter_context(kohort_with_tls(directory))]
        if available(Peer.KAFKA) is None:
            targets.append(stack.enter_context(kafka_with_tls(directory)))
        return found + tls_tables(targets, seconds, rounds)


def main() -> int:
    for table in tables(rounds=2, seconds=2.0):
        print(table.as_markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
