"""The group lake: commits to columns, to Parquet and to all tables, and simulations, on one core and on two.

``python -m benchmarks.lake`` for this alone. Each measurement is a process of its own that is kept to its
cores, with one task slot for each. Beside it: Kafka's console consumer with its formatter of commits, and a
plain loop over kafka-python that unpacks keys and values, both on one core and from a broker on another.
"""

import importlib.util
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tools.peers import jvm
from tools.peers.fetch import available, class_path
from tools.peers.kafka_tools import Tool
from tools.peers.pins import Peer

from benchmarks.processes import Meter
from benchmarks.rounds import Table
from benchmarks.targets import LOAD_CORE, Target, kohort
from benchmarks.throughput import fill
from kohort.records.batch import NewRecord
from kohort.records.build import BatchFields, build_batch
from kohort.records.group_records import OffsetCommitKey, OffsetCommitValue
from kohort.records.offsets_topic import encode_key, encode_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ROUNDS: Final = 3
PER_BATCH: Final = 500
SEGMENTS: Final = 4
COMMITS: Final = 1_000_000
TOPIC: Final = "commits"
FORMATTER: Final = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
OURS, CONSOLE, LOOP = "Kohort, to columns", "Kafka's console formatter", "kafka-python, a plain loop"
_START: Final = 1_700_000_000_000
_SIMULATIONS: Final = 24
_CLOCK: Final = 0.1  # seconds; a difference of two starts of a JVM is no better known


def commit_batch(seed: int, base: int = 0) -> bytes:
    """A batch of commits as a coordinator writes them: 50 groups, 8 topics, 32 partitions."""
    dice = random.Random(seed)
    records = []
    for number in range(PER_BATCH):
        when = _START + (base + number) * 10
        key = OffsetCommitKey(
            group=f"group-{dice.randrange(50)}",
            topic=f"topic-{dice.randrange(8)}",
            partition=dice.randrange(32),
        )
        value = OffsetCommitValue(
            offset=base + number, leader_epoch=3, metadata="", commit_timestamp=when, topic_id=bytes(16)
        )
        records.append(NewRecord(when, encode_key(key), encode_value(value)))
    return build_batch(records, BatchFields(base_offset=base))


def write_segments(root: Path, commits: int) -> None:
    """So many commits in four partitions of ``__consumer_offsets``, as files."""
    share = commits // SEGMENTS
    for partition in range(SEGMENTS):
        directory = root / f"__consumer_offsets-{partition}"
        directory.mkdir(parents=True)
        with (directory / f"{0:020d}.log").open("wb") as file:
            for base in range(0, share, PER_BATCH):
                file.write(commit_batch(partition * share + base, base))


def decode_only(_: "SparkSession", data: Path, __: Path) -> None:
    """To Arrow columns, without Spark: what a task does."""
    from kohort.lake.source import SegmentReader

    reader = SegmentReader(data)
    assert sum(batch.num_rows for share in reader.partitions() for batch in reader.read(share))


def to_parquet(spark: "SparkSession", data: Path, out: Path) -> None:
    spark.read.format("kohort_offsets").load(str(data)).write.parquet(str(out))


def whole_chain(spark: "SparkSession", data: Path, out: Path) -> None:
    """Land and make all tables."""
    from kohort.lake.landing import Files, fill
    from kohort.lake.store import Lake

    lake = Lake(out)
    with lake.writing():
        fill(spark, lake, Files(data), lambda _: None, samples=0)


def simulations(spark: "SparkSession", _: Path, __: Path) -> None:
    """A generated day of eight processes, replayed."""
    from kohort.lake.whatif.happenings import ClientSettings
    from kohort.lake.whatif.lives import make_life
    from kohort.lake.whatif.settings import Variant
    from kohort.lake.whatif.study import run_on_spark

    life = make_life(1, ClientSettings(), seats=8)
    tasks = 4 * spark.sparkContext.defaultParallelism
    run_on_spark(spark, life, [Variant("as recorded", life.settings)], _SIMULATIONS, tasks)


WORK: Final[dict[str, Callable[["SparkSession", Path, Path], None]]] = {
    "decode": decode_only,
    "parquet": to_parquet,
    "chain": whole_chain,
    "simulations": simulations,
}


def measure(work: str, cores: int, commits: int, rounds: int) -> list[tuple[float, float]]:
    """Seconds by the clock and of processor time of each round, in a process that has so many cores."""
    command = [sys.executable, "-m", "benchmarks.lake", "--one", work, str(cores), str(commits), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{work} on {cores} cores failed:\n{done.stderr[-2_000:]}")
    return [(clock, used) for clock, used in json.loads(done.stdout.splitlines()[-1])]


def one(work: str, cores: int, commits: int, rounds: int) -> None:
    """What ``measure`` starts: prints the rounds; one more, before them, does not count."""
    from kohort.spark.sessions import session

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    meter = Meter()
    spark = session(
        "benchmark",
        master=f"local[{cores}]",
        conf={"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
    )
    spark.sparkContext.setLogLevel("OFF")
    took = []
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as name:
        root = Path(name)
        write_segments(root / "data", commits)
        for turn in range(rounds + 1):
            began, used = time.perf_counter(), meter.seconds()
            WORK[work](spark, root / "data", root / f"out-{turn}")
            took.append((time.perf_counter() - began, meter.seconds() - used))
    spark.stop()
    print(json.dumps(took[1:]))


def growth_tables(work: str, title: str, most: int, rounds: int) -> list[Table]:
    """By cores and amount. A cost that is linear has the same rate for ten times as much."""
    clock = Table(f"{title}, by the clock", "thousand records/s", compared=False)
    used = Table("The same, per second of processor time", "thousand records/s", compared=False)
    for cores in (1, 2):
        for commits in (most // 10, most):
            subject = f"{commits:,} commits on {cores} {'core' if cores == 1 else 'cores'}"
            for by_clock, by_processor in measure(work, cores, commits, rounds):
                clock.add(subject, commits / by_clock / 1e3)
                used.add(subject, commits / by_processor / 1e3)
    return [clock, used]


def simulation_table(rounds: int) -> Table:
    table = Table("A day of eight processes replayed by `lake whatif`", "simulations/s", compared=False)
    for cores in (1, 2):
        for by_clock, _ in measure("simulations", cores, 0, rounds):
            table.add(f"on {cores} {'core' if cores == 1 else 'cores'}", _SIMULATIONS / by_clock)
    return table


def peer_table(target: Target, commits: int, rounds: int) -> Table:
    """The same commits from a topic: without the start of a process, which no long read would notice.

    The JVM of the formatter takes longer to start than to read so few: it reads ten times as many.
    """
    most = 10 * commits
    fill(target, TOPIC, commit_batch(1), most // PER_BATCH)
    table = Table(f"{commits:,} commits decoded, on one core", "thousand records/s")
    for _ in range(rounds):
        for by_clock, _used in measure("decode", 1, commits, 1):
            table.add(OURS, commits / by_clock / 1e3)
        if available(Peer.KAFKA) is None:
            start = console(target, 1)
            table.add(CONSOLE, most / max(console(target, most) - start, _CLOCK) / 1e3)
        table.add(LOOP, commits / plain_loop(target, commits) / 1e3)
    return table


def console(target: Target, records: int) -> float:
    """Seconds of Kafka's console consumer, with its start."""
    options = ["--bootstrap-server", target.bootstrap, "--topic", TOPIC, "--partition", "0"]
    options += ["--offset", "earliest", "--max-messages", str(records), "--formatter", FORMATTER]
    command = jvm.command(class_path(Peer.KAFKA), Tool.CONSOLE_CONSUMER.value, *options)
    began = time.perf_counter()
    subprocess.run(_pinned(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _pinned(command: list[str]) -> list[str]:
    return ["taskset", "-c", str(LOAD_CORE), *command]


def plain_loop(target: Target, commits: int) -> float:
    """Seconds of a loop over kafka-python, with its process on one core; it says how long the loop took."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.lake",
        "--loop",
        target.bootstrap,
        str(commits),
    ]
    done = subprocess.run(_pinned(command), capture_output=True, text=True, check=True)
    return float(done.stdout)


def loop(bootstrap: str, commits: int) -> None:
    """What ``plain_loop`` starts."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = cast(Any, KafkaConsumer)(bootstrap_servers=bootstrap)  # it has no types
    where = TopicPartition(TOPIC, 0)
    consumer.assign([where])
    consumer.seek(where, 0)
    rows: list[tuple[object, ...]] = []
    began = time.perf_counter()
    while len(rows) < commits:
        for records in consumer.poll(1_000, max_records=10_000).values():
            rows += [unpacked(each.key, each.value) for each in records]
    print(time.perf_counter() - began)


def unpacked(key: bytes, value: bytes) -> tuple[object, ...]:
    """A commit of the newest version, as one would write it by hand."""
    parts = list(_strings(key, 2))
    (partition,) = struct.unpack_from(">i", key, len(key) - 4)
    version, offset, epoch = struct.unpack_from(">hqi", value)
    length = value[14] - 1
    metadata = value[15 : 15 + length].decode()
    (when,) = struct.unpack_from(">q", value, 15 + length)
    return (*parts, partition, version, offset, epoch, metadata, when)


def _strings(key: bytes, at: int) -> Iterator[str]:
    for _ in range(2):
        (length,) = struct.unpack_from(">h", key, at)
        yield key[at + 2 : at + 2 + length].decode()
        at += 2 + length


def missing() -> str | None:
    """Why this cannot be measured here; None if it can."""
    return "Spark is not installed" if importlib.util.find_spec("pyspark") is None else None


def tables(target: Target, rounds: int, commits: int = COMMITS) -> list[Table]:
    """Everything about the lake, with so many commits at most."""
    rounds = min(rounds, MOST_ROUNDS)
    return [
        peer_table(target, commits // 10, rounds),
        *growth_tables("parquet", "The group lake: commits to Parquet", commits, rounds),
        *growth_tables("chain", "The group lake: commits to all tables", commits // 5, rounds),
        simulation_table(rounds),
    ]


def main(arguments: list[str]) -> int:
    match arguments:
        case ["--one", work, cores, commits, rounds]:
            one(work, int(cores), int(commits), int(rounds))
            return 0
        case ["--loop", bootstrap, commits]:
            loop(bootstrap, int(commits))
            return 0
    reason = missing()
    if reason is not None:
        print(f"not measured: {reason}")
        return 0
    with kohort() as target:
        found = tables(target, 1, COMMITS // 50) if arguments == ["--quick"] else tables(target, MOST_ROUNDS)
        print("\n".join(table.as_markdown() for table in found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
