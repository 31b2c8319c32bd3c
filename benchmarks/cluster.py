"""Several nodes on one PostgreSQL: failover, commits and produce beside one node on files and bare INSERTs.

``python -m benchmarks.cluster`` prints the tables of this module alone. The database syncs before it
confirms. Nodes and database share the core of the brokers, and the load has the other: a second node adds no
processor.
"""

import argparse
import asyncio
import itertools
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks import requests
from benchmarks.groups import find, make_topic, on_loop
from benchmarks.pipeline import connect, hammer, request_frame
from benchmarks.requests import Exchange, commit, generate
from benchmarks.rounds import Table, alternate
from benchmarks.targets import BROKER_CORE, LOAD_CORE, SETTINGS, Target, kohort, pin, settle
from benchmarks.throughput import _batch, _produce, _warm
from kohort.testing.cluster import Cluster, ClusterNode
from kohort.testing.postgres import EmbeddedPostgres

KILLS = 20
GROUPS = 10_000
LEASE_S = 3.0
_COMMITTERS = 50
_ROW = 200  # bytes, about those of a commit
_PATIENCE_S = 60.0
_SYNCED = {"fsync": "on", "full_page_writes": "on"}
_runs = itertools.count()


class Subject(NamedTuple):
    """Brokers that are measured as one."""

    name: str
    nodes: list[Target]
    cluster: Cluster | None = None  # None: on files


class ProduceLoad(NamedTuple):
    """Bytes of a batch, and MB/s that one node should reach."""

    size: int
    aim: int


_LOADS = (ProduceLoad(900_000, 60), ProduceLoad(100_000, 40))


# -- failover ----------------------------------------------------------------------------------------------


class Probe:
    """Does one thing after the other on a thread, and notes when each was acknowledged."""

    def __init__(self, act: Callable[[], bool]) -> None:
        self._act = act
        self._is_over = False
        self._acknowledged: list[float] = []
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._thread.join()

    def gap_around(self, moment: float) -> float:
        """The longest time without an acknowledgement around a moment; waits until there is one after it."""
        later = moment + 1.0  # what comes earlier was on its way: a lease takes longer
        with self._progress:
            if not self._progress.wait_for(lambda: self._last > later, _PATIENCE_S):
                raise RuntimeError(f"nothing was acknowledged for {_PATIENCE_S:g} s")
            near = [each for each in self._acknowledged if each > moment - 1.0]
        return max(after - before for before, after in itertools.pairwise(near))

    @property
    def _last(self) -> float:
        return self._acknowledged[-1] if self._acknowledged else 0.0

    def until_begun(self) -> None:
        """Wait for one more acknowledgement."""
        now = time.perf_counter()
        with self._progress:
            assert self._progress.wait_for(lambda: self._last > now, _PATIENCE_S)

    def _run(self) -> None:
        while not self._is_over:
            if self._act():
                with self._progress:
                    self._acknowledged.append(time.perf_counter())
                    self._progress.notify_all()


@contextmanager
def _producing(bootstrap: str, topic: str) -> Iterator[Probe]:
    """One record after the other by confluent-kafka, idempotent, acks=all."""
    from confluent_kafka import Producer

    settings = {"enable.idempotence": True, "linger.ms": 0, "retry.backoff.ms": 20, "log_level": 0}
    producer = Producer({**_client(bootstrap), **settings})

    def act() -> bool:
        errors: list[object] = []
        producer.produce(topic, b"x" * 100, partition=0, on_delivery=lambda error, _: errors.append(error))
        producer.flush(_PATIENCE_S)
        return errors == [None]

    with Probe(act) as probe:
        yield probe


@contextmanager
def _committing(bootstrap: str, topic: str, group: str) -> Iterator[Probe]:
    """One commit after the other by confluent-kafka."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({**_client(bootstrap), "group.id": group, "log_level": 0})

    def act() -> bool:
        try:
            (answer,) = consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        except KafkaException:
            return False
        return answer.error is None

    with Probe(act) as probe:
        yield probe
    consumer.close()


def _client(bootstrap: str) -> dict[str, str | int]:
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "topic.metadata.refresh.fast.interval.ms": 50,
        "retry.backoff.max.ms": 250,  # between two looks for a leader; the page on clusters advises it
    }


def failover_tables(kills: int) -> list[Table]:
    """kill -9 of the node that leads a partition and coordinates a group, again and again."""
    aim = f"The lease is {LEASE_S:g} s; the aim is at most {LEASE_S + 1:g} s."
    note = f"{aim} Clients have retry.backoff.max.ms=250."
    produced = Table("Failover of three nodes: no record is acknowledged", "s", note, False, compared=False)
    committed = Table("The same: no commit is acknowledged", "s", "", False, compared=False)
    placed = Table(
        "The same: no node leads, from the last renewal of the dead one", "s", "", False, compared=False
    )
    with (
        EmbeddedPostgres(**_SYNCED) as postgres,
        Cluster(3, url=postgres.url, configs=SETTINGS) as cluster,
        ExitStack() as stack,
    ):
        cluster.create_topic("failover")
        producing = stack.enter_context(_producing(cluster.bootstrap, "failover"))
        committing = stack.enter_context(_committing(cluster.bootstrap, "failover", "failover"))
        committing.until_begun()  # now there are coordinators
        for _ in range(kills):
            doomed = cluster.leader("failover")
            cluster.move_coordinator("failover", to=doomed)
            producing.until_begun()
            committing.until_begun()
            moment = time.perf_counter()
            doomed.kill()
            produced.add("confluent-kafka", producing.gap_around(moment))
            committed.add("confluent-kafka", committing.gap_around(moment))
            placed.add("by the tables of the cluster", asyncio.run(_silence(postgres.url, "failover")))
            doomed.start()
    found = [produced, committed, placed]
    for table in found:
        (samples,) = table.samples.values()
        table.note = f"{table.note} {_distribution(samples)}".strip()
    return found


async def _silence(url: str, topic: str) -> float:
    """Seconds between the last sign of a partition's old leader and its new leader."""
    import asyncpg

    connection = await asyncpg.connect(url)
    silent_ms = await connection.fetchval(
        "SELECT silent_ms FROM kohort.partitions JOIN kohort.topics USING (topic_id)"
        " WHERE name = $1 AND reason = 'death'",
        topic,
    )
    await connection.close()
    return float(silent_ms) / 1_000


def _distribution(samples: Sequence[float]) -> str:
    ordered = sorted(samples)
    at_95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return (
        f"{len(ordered)} kills: median {statistics.median(ordered):.2f} s, 95th percentile {at_95:.2f} s,"
        f" longest {ordered[-1]:.2f} s."
    )


def take_over_table(groups: int) -> Table:
    """One node has all groups and is killed; the other has none, and takes them."""
    table = Table(
        f"{groups:,} groups are taken over by the only other node, from the kill on", "s",
        f"The lease of {LEASE_S:g} s is part of it; the aim is at most {LEASE_S + 1:g} s.", False,
    )  # fmt: skip
    calm = {**SETTINGS, "kohort.cluster.rebalance.delay.ms": "600000"}
    with (
        EmbeddedPostgres(**_SYNCED) as postgres,
        Cluster(1, url=postgres.url, configs=calm) as cluster,
    ):
        first = _pinned(cluster.nodes[0])
        on_loop(_make_groups(first, groups))
        cluster.add_node()
        cluster.nodes[0].kill()
        began = time.perf_counter()
        _until_taken(postgres.url, first=cluster.nodes[0].node_id)
        table.add("Kohort, lease and loading", time.perf_counter() - began)
    return table


async def _make_groups(target: Target, count: int) -> None:
    await make_topic(target, "commits")
    pipes = [await connect(target.host, target.port) for _ in range(20)]
    names = iter(range(count))
    await find(pipes[0], "taken-0")

    async def work(number: int) -> None:
        for name in names:
            await commit(pipes[number], f"taken-{name}")

    await asyncio.gather(*map(work, range(len(pipes))))
    for pipe in pipes:
        pipe.transport.close()


def _until_taken(url: str, first: int) -> None:
    """Until the node is dead, and every partition has a leader that has loaded it."""
    from kohort.log.postgres.connections import Database
    from kohort.log.postgres.overview import look

    database = Database.parse(url)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        found = asyncio.run(look(database))
        dead = [each.node_id for each in found.nodes if not each.is_alive]
        if first in dead and found.is_led:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{found.orphans} partitions have no leader, {found.loading} are loading")
        time.sleep(0.01)


# -- rates -------------------------------------------------------------------------------------------------


def _pinned(node: ClusterNode) -> Target:
    pin(node.pid, BROKER_CORE)
    host, _, port = node.bootstrap.rpartition(":")
    return Target(f"node {node.node_id}", host, int(port), node.pid)


def commit_tables(subjects: list[Subject], url: str, seconds: float, rounds: int) -> list[Table]:
    """By the compiled generator: the connections are shared by the nodes, each commits where it must."""
    aim = "Aims for one node: at least 0.8 times the rate on files, at most 1.5 times its 99th percentile."
    rate = Table(f"Offset commits on nodes, {_COMMITTERS} connections, one in flight each", "per second", aim)
    slow = Table("The same: 99th percentile", "ms", higher_is_better=False)
    for number in range(rounds + 1):  # the first one warms up
        for subject in subjects:
            prepared = on_loop(_exchanges(subject.nodes))
            with ThreadPoolExecutor(len(subject.nodes)) as pool:
                found = list(pool.map(lambda one: generate(one[0], one[1], 1, seconds), prepared))
            if number:
                rate.add(subject.name, sum(each.rate for each in found))
                slow.add(subject.name, max(each.p99_ms for each in found))
        inserted, at_99 = asyncio.run(_insert_loop(url, bytes(_ROW), seconds))
        if number:
            rate.add(f"bare INSERT of {_ROW} bytes, one connection", inserted)
            slow.add(f"bare INSERT of {_ROW} bytes, one connection", at_99)
        settle()
    return [rate, slow]


async def _exchanges(nodes: list[Target]) -> list[tuple[Target, list[Exchange]]]:
    """As many groups on each node; together as many as there are connections."""
    await make_topic(nodes[0], "commits")
    pipes = {node.port: await connect(node.host, node.port) for node in nodes}
    made: dict[int, list[Exchange]] = {node.port: [] for node in nodes}
    share = _COMMITTERS // len(nodes)
    run = next(_runs)
    for number in itertools.count():
        group = f"shared-{run}-{number}"
        port = await find(pipes[nodes[0].port], group)
        if len(made[port]) < share:
            made[port].append(await commit(pipes[port], group))
        if all(len(each) == share for each in made.values()):
            break
    for pipe in pipes.values():
        pipe.transport.close()
    return [(node, made[node.port]) for node in nodes]


def produce_table(subjects: list[Subject], url: str, load: ProduceLoad, seconds: float, rounds: int) -> Table:
    """Records of 1,000 bytes; every node gets those of a topic of its own."""
    batch = _batch(load.size // 1_000, 1_000)
    table = Table(
        f"Produce on nodes, batches of {load.size // 1_000} kB, acks=all, 5 in flight for each node",
        "MB/s",
        f"The aim for one node on PostgreSQL is {load.aim} MB/s.",
    )

    def measure(subject: Subject) -> float:
        topics = _lead_topics(subject, f"nodes-{load.size}")
        return on_loop(_produce_rate(subject.nodes, topics, batch, seconds)) * load.size / 1e6

    def insert() -> float:
        return asyncio.run(_insert_loop(url, batch, seconds))[0] * load.size / 1e6

    measured: dict[str, Callable[[], float]] = {
        subject.name: partial(measure, subject) for subject in subjects
    }
    measured["bare INSERT, one connection"] = insert
    for warm_up in measured.values():
        warm_up()
    alternate(table, measured, rounds)
    return table


def _lead_topics(subject: Subject, prefix: str) -> list[str]:
    """A topic for each node, which leads it."""
    topics = [f"{prefix}-{number}" for number in range(len(subject.nodes))]
    on_loop(_make_topics(subject.nodes[0], topics))
    if subject.cluster is not None:
        for node, topic in zip(subject.cluster.nodes, topics, strict=True):
            if subject.cluster.leader(topic) is not node:
                subject.cluster.move(topic, to=node)
    return topics


async def _make_topics(target: Target, topics: list[str]) -> None:
    for topic in topics:
        await make_topic(target, topic)


async def _produce_rate(nodes: list[Target], topics: list[str], batch: bytes, seconds: float) -> float:
    pipes = [await connect(node.host, node.port) for node in nodes]
    for pipe, topic in zip(pipes, topics, strict=True):
        await _warm(pipe, topic)
    frames = [request_frame(_produce(topic, batch), 8) for topic in topics]
    rate = await hammer(list(zip(pipes, frames, strict=True)), 5, seconds)
    for pipe in pipes:
        pipe.transport.close()
    return rate


async def _insert_loop(url: str, content: bytes, seconds: float) -> tuple[float, float]:
    """INSERTs a second into a table of two columns, each committed, and milliseconds that 99 % take."""
    import asyncpg

    connection = await asyncpg.connect(url)
    await connection.execute("DROP TABLE IF EXISTS public.bare")
    await connection.execute("CREATE TABLE public.bare (number bigint PRIMARY KEY, content bytea NOT NULL)")
    await connection.execute("ALTER TABLE public.bare ALTER COLUMN content SET STORAGE EXTERNAL")
    insert = await connection.prepare("INSERT INTO public.bare VALUES ($1, $2)")
    taken: list[float] = []
    began = last = time.perf_counter()
    while last - began < seconds:
        await insert.fetch(len(taken), content)
        now = time.perf_counter()
        taken.append(now - last)
        last = now
    await connection.close()
    return len(taken) / (last - began), 1_000 * sorted(taken)[int(0.99 * len(taken))]


def rate_tables(files: Target, seconds: float, rounds: int) -> list[Table]:
    """One and two nodes, each cluster in a schema of its own of the same database."""
    with EmbeddedPostgres(**_SYNCED) as postgres, ExitStack() as stack:
        pin(postgres.pid, BROKER_CORE)
        subjects = []
        for count, name in ((1, "one node"), (2, "two nodes")):
            url = f"{postgres.url}?schema=bench_{count}"
            cluster = stack.enter_context(Cluster(count, url=url, configs=SETTINGS))
            nodes = [_pinned(node) for node in cluster.nodes]
            subjects.append(Subject(f"Kohort, {name} on PostgreSQL", nodes, cluster))
        subjects.append(Subject("Kohort, one node on files", [files]))
        found = [produce_table(subjects, postgres.url, load, seconds, rounds) for load in _LOADS]
        if requests.missing() is None:
            found += commit_tables(subjects, postgres.url, seconds, rounds)
        return found


def tables(
    files: Target, seconds: float, rounds: int, kills: int = KILLS, groups: int = GROUPS
) -> list[Table]:
    """Kills take six seconds each."""
    return [*rate_tables(files, seconds, rounds), take_over_table(groups), *failover_tables(kills)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--groups", type=int, default=GROUPS)
    options = parser.parse_args()
    with kohort() as files:
        pin(os.getpid(), LOAD_CORE)
        for table in tables(files, options.seconds, options.rounds, options.kills, options.groups):
            print(table.as_markdown(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
