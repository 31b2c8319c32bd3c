"""Fill a lake: read what is new in a cluster or in files, once, and make the derived tables again."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kohort.client.errors import UnknownTopicError
from kohort.lake import schemas, tables
from kohort.lake.log_ends import LogEnd, sample_files, sample_history, sample_now, write_log_ends
from kohort.lake.segments import Segment, find_segments, log_end
from kohort.lake.source import OffsetsDataSource
from kohort.lake.store import Lake, LakeError, Load, Offsets, count_rows, write_dated
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL, TopicPartition
from kohort.spark.lookup import Lookup
from kohort.spark.offsets import from_json, to_json
from kohort.spark.options import SourceOptions, parse_source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMAT = OffsetsDataSource.name()


class Landed(NamedTuple):
    """A load is in the lake."""

    load: int
    rows: Mapping[str, int]


class Refreshed(NamedTuple):
    """The derived tables are new."""

    seconds: float
    rows: Mapping[str, int]


Event = Landed | Refreshed
Tell = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Brokers to read from; ``options`` are those of ``.format("kohort")`` that say how to reach them."""

    bootstrap: str
    options: Mapping[str, str]

    def source_options(self, subscribed: Mapping[str, str]) -> SourceOptions:
        return parse_source_options(self.reading() | dict(subscribed), streaming=False)

    def reading(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **self.options}


@dataclass(frozen=True, slots=True)
class Files:
    """A directory of segments to read from."""

    root: Path


Source = Cluster | Files


def land(spark: "SparkSession", lake: Lake, source: Source, *, samples: int = 0) -> Load | None:
    """Land what is new. ``samples``: so many log ends from the past of each partition, by timestamps.

    None if there is nothing new, not even a log end. The lake must be held for writing.
    """
    number = len(lake.loads()) + 1
    match source:
        case Cluster():
            load, frames, ends = _from_cluster(spark, lake, source, samples)
        case Files(root):
            load, frames, ends = _from_files(spark, lake, root)
    load.number = number
    for table, frame in frames.items():
        info = schemas.TABLES[table]
        staged = lake.stage(info, number)
        write_dated(frame, info, staged)
        load.rows[table] = count_rows(staged)
    if ends:
        write_log_ends(lake.stage(schemas.LOG_ENDS, number), ends)
        load.rows[schemas.LOG_ENDS.name] = len(ends)
    if not any(load.rows.values()):
        return None
    lake.enter(load)
    return load


_Frames = dict[str, "DataFrame"]


def _from_cluster(
    spark: "SparkSession", lake: Lake, source: Cluster, samples: int
) -> tuple[Load, _Frames, list[LogEnd]]:
    load = Load(0, source.bootstrap)
    frames: _Frames = {}
    reached = lake.next_offsets()
    for topic, table in ((CONSUMER_OFFSETS, schemas.RECORDS), (JOURNAL, schemas.JOURNAL)):
        lookup = Lookup(source.source_options({"subscribe": topic}))
        try:
            planned = _plan(lookup, topic, reached.get(topic, {}), lake.topic_ids().get(topic))
        except UnknownTopicError as error:
            if topic == JOURNAL:
                continue  # a cluster of Kafka has none
            raise LakeError(
                f"the cluster at {source.bootstrap} has no topic {topic}",
                hint="it is made with the first commit of a group; try again after that",
            ) from error
        finally:
            lookup.close()
        starts, ends, topic_id = planned
        load.topic_ids[topic] = topic_id
        load.next_offsets[topic] = {str(where.partition): end for where, end in sorted(ends.items())}
        asked = {where: end for where, end in ends.items() if starts[where] < end}
        if asked:
            frames[table.name] = _read(spark, source, topic, {one: starts[one] for one in asked}, asked)
    pattern = source.source_options({"subscribePattern": ".*"})
    found = sample_now(pattern, round(time.time() * 1_000))
    if samples and not any(load_.rows.get(schemas.LOG_ENDS.name) for load_ in lake.loads()):
        found = sample_history(pattern, found, samples) + found
    return load, frames, found


def _plan(
    lookup: Lookup, topic: str, reached: Mapping[str, int], known_id: str | None
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], str]:
    """From where to where, and the topic's id. Raises ``LakeError`` if another topic was landed before."""
    partitions = lookup.partitions()
    topic_id = next(iter(lookup.topic_ids().values())).hex()
    if known_id is not None and known_id != topic_id:
        raise LakeError(
            f"{topic} was deleted and made again, or is that of another cluster",
            hint="fill a new lake with another --to: offsets of the two cannot be told apart",
        )
    first, last = lookup.log_starts(partitions), lookup.log_ends(partitions)
    starts = {where: max(first[where], reached.get(str(where.partition), 0)) for where in partitions}
    return {where: min(starts[where], last[where]) for where in partitions}, last, topic_id


def _read(
    spark: "SparkSession",
    source: Cluster,
    topic: str,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> "DataFrame":
    reader = spark.read.format(_FORMAT if topic == CONSUMER_OFFSETS else "kohort")
    options = source.reading() | {
        "assign": json.dumps({topic: sorted(where.partition for where in starts)}),
        "startingOffsets": json.dumps(to_json(dict(starts))),
        "endingOffsets": json.dumps(to_json(dict(ends))),
        "failOnDataLoss": "false",  # compaction and retention go on while we read
    }
    frame = reader.options(**options).load()
    return frame if topic == CONSUMER_OFFSETS else tables.journal(frame)


def _from_files(spark: "SparkSession", lake: Lake, root: Path) -> tuple[Load, _Frames, list[LogEnd]]:
    from pyspark.sql import functions as f

    load = Load(0, str(root))
    segments = find_segments(root, CONSUMER_OFFSETS)
    reached = from_json(lake.next_offsets())
    load.next_offsets = _ends(segments)
    frame = spark.read.format(_FORMAT).load(str(root))
    for where, offset in reached.items():
        if where.topic == CONSUMER_OFFSETS:
            frame = frame.where((f.col("src_partition") != where.partition) | (f.col("src_offset") >= offset))
    return load, {schemas.RECORDS.name: frame}, sample_files(root)


def _ends(segments: list[Segment]) -> Offsets:
    by_partition: dict[int, list[Segment]] = {}
    for segment in segments:
        by_partition.setdefault(segment.partition, []).append(segment)
    ends = {str(number): log_end(those) for number, those in sorted(by_partition.items())}
    return {segments[0].topic: ends}


def refresh(spark: "SparkSession", lake: Lake) -> dict[str, int]:
    """Make every derived table again from what has landed; the number of rows of each.

    All of the history is read: the time this takes grows with the lake.
    """
    read = {table.name: lake.read(spark, table) for table in schemas.LANDED}
    names = {
        row.topic_id: row.topic
        for row in read["log_ends"]
        .where("topic_id is not null")
        .select("topic_id", "topic")
        .distinct()
        .collect()
    }

    def keep(table: schemas.TableInfo, frame: "DataFrame") -> "DataFrame":
        lake.write(table, frame)
        return lake.read(spark, table)

    commits = keep(schemas.OFFSET_COMMITS, tables.offset_commits(read["records"]))
    snapshots = keep(schemas.GROUP_SNAPSHOTS, tables.group_snapshots(read["records"], names))
    samples = keep(schemas.LAG_SAMPLES, tables.lag_samples(commits, read["log_ends"], snapshots))
    lake.write(schemas.LAG_STATUS, tables.lag_status(samples))
    rebalances = keep(schemas.REBALANCES, tables.rebalances(snapshots, read["journal"]))
    sessions = keep(schemas.MEMBER_SESSIONS, tables.member_sessions(snapshots, read["journal"]))
    lake.write(schemas.FINDINGS, tables.findings(rebalances, sessions, snapshots))
    return {table.name: lake.count(table) for table in schemas.DERIVED}


def fill(spark: "SparkSession", lake: Lake, source: Source, tell: Tell, *, samples: int = 0) -> None:
    """Land what is new and make the tables again, once."""
    load = land(spark, lake, source, samples=samples)
    if load is not None:
        tell(Landed(load.number, load.rows))
    _refresh(spark, lake, tell)


def _refresh(spark: "SparkSession", lake: Lake, tell: Tell) -> None:
    began = time.monotonic()
    rows = refresh(spark, lake)
    tell(Refreshed(time.monotonic() - began, rows))


class Cadence(NamedTuple):
    """How often, in seconds, records are landed and tables made; and how many log ends of the past."""

    trigger: float
    refresh: float
    samples: int


def follow(  # noqa: PLR0913  # what a service needs
    spark: "SparkSession",
    lake: Lake,
    source: Source,
    cadence: Cadence,
    stopping: threading.Event,
    tell: Tell,
) -> None:
    """Land what is new, again and again, until ``stopping`` is set; then make the tables a last time."""
    is_stale, refreshed = True, -cadence.refresh
    while not stopping.is_set():
        began = time.monotonic()
        load = land(spark, lake, source, samples=cadence.samples)
        if load is not None:
            is_stale = True
            tell(Landed(load.number, load.rows))
        if is_stale and time.monotonic() - refreshed >= cadence.refresh:
            _refresh(spark, lake, tell)
            is_stale, refreshed = False, time.monotonic()
        stopping.wait(max(0.0, cadence.trigger - (time.monotonic() - began)))
    if is_stale:
        _refresh(spark, lake, tell)


def event_text(event: Event) -> str:
    """One line for a person."""
    rows = ", ".join(f"{count:,} {name}" for name, count in event.rows.items())
    match event:
        case Landed(number, _):
            return f"load {number}: {rows}"
        case Refreshed(seconds, _):
            return f"tables made in {seconds:.1f} s: {rows}"


def event_json(event: Event) -> dict[str, object]:
    """The same for a program."""
    kind = "landed" if isinstance(event, Landed) else "refreshed"
    return {"event": kind, **event._asdict(), "rows": dict(event.rows)}
