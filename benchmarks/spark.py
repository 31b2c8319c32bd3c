"""Spark reads topics: our source beside Spark's own connector. ``python -m benchmarks.spark`` for this alone.

All processes of Spark share one core and one task slot, the broker has the other: rows per second are rows
per second and core.
"""

import importlib.util
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tools.peers.fetch import available, jars
from tools.peers.pins import CONNECTOR_VERSION, Peer

from benchmarks.processes import Meter
from benchmarks.rounds import Table
from benchmarks.targets import LOAD_CORE, Target, kohort, pin
from benchmarks.throughput import fill
from kohort import Producer
from kohort.client.admin import Admin
from kohort.client.admin.results import NewTopic
from kohort.records.batch import NewRecord
from kohort.records.build import BatchFields, build_batch
from kohort.records.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS, IN_GROUP, SPARKS = "Kohort", "Kohort, member of a group", f"Spark's connector {CONNECTOR_VERSION}"
FLOOR, UNIX = "Floor of any Python source", "Kohort, workers on Unix sockets"
FORMATS = {OURS: "kohort", IN_GROUP: "kohort", SPARKS: "kafka", FLOOR: "floor", UNIX: "kohort"}
STREAMING = (OURS, IN_GROUP, SPARKS, FLOOR)
UNIX_SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}
LONG = 600
WARM_UP = 3  # micro-batches that start processes and do not count
MOST_ROUNDS = 3
Durations = dict[str, int]


class Shape(NamedTuple):
    """What a topic holds: batches of so many records of so many bytes."""

    title: str
    size: int
    records: int
    batches: int
    codec: Codec

    @property
    def rows(self) -> int:
        return self.records * self.batches

    @property
    def topic(self) -> str:
        return f"spark-{self.size}-{self.codec.name.lower()}"


SHAPES = (
    Shape("1,000,000 records of 100 bytes, plain", 100, 500, 2_000, Codec.NONE),
    Shape("1,000,000 records of 100 bytes, zstd", 100, 500, 2_000, Codec.ZSTD),
    Shape("20,000 records of 10 KB, plain", 10_000, 10, 2_000, Codec.NONE),
    Shape("20,000 records of 10 KB, zstd", 10_000, 10, 2_000, Codec.ZSTD),
)
TINY = Shape("tiny", 99, 1, 18, Codec.NONE)
ROWS = 100_000  # of a micro-batch that is not tiny
ONE_RECORD = "one record"
WIDTHS = (20, 200, 2_000)
WIDE_BATCHES = 4


def value(dice: random.Random, size: int) -> bytes:
    """JSON of a shop, as compressible as such text is."""
    line = b""
    while len(line) < size:
        line += b'{"order":%d,"customer":%d,"state":"shipped","amount":%d.%02d,"currency":"EUR"}' % (
            dice.randrange(10**9), dice.randrange(10**5), dice.randrange(1_000), dice.randrange(100),
        )  # fmt: skip
    return line[:size]


def prepare(target: Target, shape: Shape) -> None:
    """Make and fill the topic of a shape."""
    dice, now = random.Random(shape.size), int(time.time() * 1_000)
    records = [
        NewRecord(now + number, b"%08d" % dice.randrange(10**8), value(dice, shape.size))
        for number in range(shape.records)
    ]
    fill(target, shape.topic, build_batch(records, BatchFields(codec=shape.codec)), shape.batches)


class Lab(NamedTuple):
    """A broker and Spark, and what Spark's processes have used."""

    target: Target
    spark: "SparkSession"
    meter: Meter


@contextmanager
def laboratory(target: Target, conf: Mapping[str, str] = MappingProxyType({})) -> Iterator[Lab]:
    """Spark with one task slot and its own connector at hand, on the cores of this process."""
    from benchmarks.spark_floor import Floor
    from kohort.spark.sessions import session

    meter = Meter()
    connector = sorted(str(jar) for jar in jars(Peer.SPARK_CONNECTOR).glob("*.jar"))
    spark = session(
        "benchmark",
        master="local[1]",
        conf={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraClassPath": os.pathsep.join(connector),
            **conf,
        },
    )
    spark.dataSource.register(Floor)
    try:
        yield Lab(target, spark, meter)
    finally:
        spark.stop()


def options(target: Target, subject: str, topic: str) -> dict[str, str]:
    if subject == FLOOR:
        return {"batches": str(TINY.batches)}
    given = {
        "kafka.bootstrap.servers": target.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    return given | ({"kafka.group.id": f"spark-{time.monotonic_ns()}"} if subject == IN_GROUP else {})


def read_all(lab: Lab, shape: Shape, subject: str) -> tuple[float, float]:
    """A batch query that takes every column and keeps nothing: thousand rows per second by the clock, and
    per second of the processor time of all processes of Spark.
    """
    given = options(lab.target, subject, shape.topic)
    frame = lab.spark.read.format(FORMATS[subject]).options(**given).load()
    began, used = time.perf_counter(), lab.meter.seconds()
    frame.write.format("noop").mode("overwrite").save()
    clock, used = time.perf_counter() - began, lab.meter.seconds() - used
    return shape.rows / clock / 1e3, shape.rows / used / 1e3


def micro_batches(lab: Lab, topic: str, subject: str, rows: int, warm_up: int = WARM_UP) -> list[Durations]:
    """What Spark says about the duration of each micro-batch of so many rows, in milliseconds."""
    given = options(lab.target, subject, topic)
    if subject != FLOOR:
        given["maxOffsetsPerTrigger"] = str(rows)
    stream = lab.spark.readStream.format(FORMATS[subject]).options(**given).load()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as checkpoint:
        sink = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = sink.trigger(availableNow=True).start()
        assert query.awaitTermination(LONG)
    return [each.durationMs for each in query.recentProgress if each.numInputRows][warm_up:]


def median(batches: list[Durations], part: str) -> float:
    return statistics.median(each[part] for each in batches)


def throughput_tables(lab: Lab, rounds: int) -> list[Table]:
    tables = []
    for shape in SHAPES:
        prepare(lab.target, shape)
        clock = Table(f"Spark reads {shape.title}, on one core", "thousand rows/s")
        used = Table("The same, per second of Spark's processor time", "thousand rows/s")
        for turn in range(rounds + 1):
            for subject in (OURS, SPARKS):
                by_clock, by_processor = read_all(lab, shape, subject)
                if turn:  # the first warms up
                    clock.add(subject, by_clock)
                    used.add(subject, by_processor)
        tables += [clock, used]
    return tables


def stream_tables(lab: Lab, rounds: int) -> list[Table]:
    """Durations of micro-batches, and how much longer a member takes to plan one: it commits there."""
    prepare(lab.target, TINY)
    for name in STREAMING:
        micro_batches(lab, TINY.topic, name, 1)  # warms up
    found = []
    for shape, rows, title in ((TINY, 1, ONE_RECORD), (SHAPES[0], ROWS, f"{ROWS:,} records of 100 bytes")):
        took = Table(f"A micro-batch of {title} in Spark", "ms", higher_is_better=False)
        share = Table(
            f"Group and commit, share of a micro-batch of {title}",
            "%",
            "What planning a batch takes a member of a group longer than a query without one.",
            higher_is_better=False,
        )
        for _ in range(rounds):
            subjects = STREAMING if shape is TINY else STREAMING[:-1]
            done = {name: micro_batches(lab, shape.topic, name, rows) for name in subjects}
            for name, batches in done.items():
                took.add(name, median(batches, "triggerExecution"))
            longer = median(done[IN_GROUP], "latestOffset") - median(done[OURS], "latestOffset")
            share.add(IN_GROUP, 100 * longer / median(done[IN_GROUP], "triggerExecution"))
        found += [took, share]
    return found


def wide_tables(lab: Lab, rounds: int) -> list[Table]:
    """Micro-batches with one record of each partition: what partitions cost, whatever is in them."""
    found = []
    for partitions in WIDTHS:
        topic = f"spark-wide-{partitions}"
        fill_wide(lab.target, topic, partitions, WIDE_BATCHES)
        took = Table(
            f"A micro-batch of one record from each of {partitions:,} partitions",
            "ms",
            higher_is_better=False,
        )
        for _ in range(rounds):
            for subject in (OURS, IN_GROUP, SPARKS):
                batches = micro_batches(lab, topic, subject, partitions, warm_up=1)
                took.add(subject, median(batches, "triggerExecution"))
        found.append(took)
    return found


def fill_wide(target: Target, topic: str, partitions: int, records: int) -> None:
    """Make a topic with so many records in each partition."""
    with Admin(target.bootstrap) as admin:
        admin.create_topic(NewTopic(name=topic, partitions=partitions))
    with Producer(bootstrap_servers=target.bootstrap) as producer:
        for number in range(partitions * records):
            producer.send(topic, b"%0100d" % number, partition=number % partitions)


def unix_table(lab: Lab, rounds: int) -> Table:
    """What Spark's setting of Unix sockets is worth. Only a new session takes it: not the same minutes."""
    took = Table(
        f"A micro-batch of {ONE_RECORD} in Spark, workers on Unix sockets", "ms", higher_is_better=False
    )
    for turn in range(rounds + 1):
        for subject in (UNIX, SPARKS):
            batches = micro_batches(lab, TINY.topic, subject, 1)
            if turn:  # the first warms up
                took.add(subject, median(batches, "triggerExecution"))
    return took


def missing() -> str | None:
    """Why this cannot be measured here; None if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "Spark is not installed"
    return available(Peer.SPARK_CONNECTOR)


def tables(target: Target, rounds: int) -> list[Table]:
    """Everything that Spark is measured by; takes about eight minutes with three rounds."""
    rounds = min(rounds, MOST_ROUNDS)
    with laboratory(target) as lab:
        found = throughput_tables(lab, rounds) + stream_tables(lab, rounds) + wide_tables(lab, 1)
    with laboratory(target, UNIX_SOCKETS) as lab:
        return [*found, unix_table(lab, rounds)]


def main() -> int:
    reason = missing()
    if reason is not None:
        print(f"not measured: {reason}")
        return 0
    with kohort() as target:
        pin(os.getpid(), LOAD_CORE)
        print("\n".join(table.as_markdown() for table in tables(target, MOST_ROUNDS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
