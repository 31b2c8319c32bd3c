"""Fill a lake: read what is new in a cluster or in files, once, and bring the derived tables up to it."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kohort.client.errors import UnknownTopicError
from kohort.lake import schemas, tables
from kohort.lake.log_ends import LogEnd, sample_files, sample_history, sample_now, write_log_ends
from kohort.lake.refresh import refresh
from kohort.lake.segments import SegmentError, SegmentFile, find_segments, log_end, read_values
from kohort.lake.source import OffsetsDataSource
from kohort.lake.store import LOAD, Lake, LakeError, Manifest, write_dated
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL, TopicPartition
from kohort.spark.lookup import Lookup
from kohort.spark.offsets import to_json
from kohort.spark.options import SourceOptions, parse_source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMAT = OffsetsDataSource.name()
_RETENTION = "offsets.retention.minutes"


class LakeStarted(NamedTuple):
    """The lake is open for writing; reading begins."""


class LoadLanded(NamedTuple):
    """A load is in the lake."""

    load: int
    rows: Mapping[str, int]


class Refreshed(NamedTuple):
    """The derived tables are new."""

    seconds: float
    rows: Mapping[str, int]


Event = LoadLanded | Refreshed
Tell = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCluster:
    """Brokers to read from; ``options`` are those of ``.format("kohort")`` that say how to reach them."""

    bootstrap: str
    options: Mapping[str, str] = field(repr=False)  # some are secrets

    def source_options(self, subscribed: Mapping[str, str]) -> SourceOptions:
        return parse_source_options(self.reading() | dict(subscribed), streaming=False)

    def reading(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **self.options}


@dataclass(frozen=True, slots=True)
class Files:
    """A directory of segments to read from."""

    root: Path


Source = SourceCluster | Files


def land(spark: "SparkSession", lake: Lake, source: Source, *, samples: int = 0) -> LoadLanded | None:
    """Land what is new. ``samples``: so many log ends from the past of each partition, by timestamps.

    None if there is nothing new, not even a log end. The lake must be held for writing.
    """
    from pyspark.sql import functions as f

    before = lake.manifest()
    match source:
        case SourceCluster():
            after, frames, ends = _from_cluster(spark, before, source, samples)
        case Files(root):
            after, frames, found = _from_files(spark, before, root)
            ends = ends_not_landed(before, after, found)
    after.step = before.step + 1
    for table, frame in frames.items():
        info = schemas.TABLES[table]
        write_dated(frame.withColumn(LOAD, f.lit(after.step)), info, lake.stage(table, after.step))
    if ends:
        write_log_ends(lake.stage(schemas.LOG_ENDS.name, after.step), ends, after.step)
        note_ends(before, after, ends)
    written = lake.commit(before, after)
    rows = {
        table.name: part.rows for table in schemas.LANDED if (part := written.part(table.name, after.step))
    }
    return LoadLanded(after.step, rows) if any(rows.values()) else None


def ends_not_landed(before: Manifest, after: Manifest, found: Sequence[LogEnd]) -> list[LogEnd]:
    """The ends of files that were written to since the last load.

    Such a file ends there now too. So its sample is behind those that have landed, though it may have been
    written to before the last of them was taken.
    """
    after.written = {}
    for one in found:
        after.written.setdefault(one.topic, {})[str(one.partition)] = one.ts
    return [
        one._replace(ts=max(one.ts, before.newest_end + 1))
        for one in found
        if before.written.get(one.topic, {}).get(str(one.partition)) != one.ts
    ]


def note_ends(before: Manifest, after: Manifest, ends: Sequence[LogEnd]) -> None:
    """Names and sizes of topics, and whether tables that were made without these ends are wrong now."""
    named = {one.topic_id: one.topic for one in ends if one.topic_id is not None}
    after.names = before.names | named
    after.partitions = dict(before.partitions)
    for one in ends:
        after.partitions[one.topic] = max(after.partitions.get(one.topic, 0), one.partition + 1)
    after.newest_end = max(before.newest_end, *(one.ts for one in ends))
    is_late = min(one.ts for one in ends) <= before.newest_end
    if is_late or not set(before.unnamed).isdisjoint(named):
        after.is_out_of_order = True


_Frames = dict[str, "DataFrame"]


def _from_cluster(
    spark: "SparkSession", before: Manifest, source: SourceCluster, samples: int
) -> tuple[Manifest, _Frames, list[LogEnd]]:
    load = _next(before, source.bootstrap)
    frames: _Frames = {}
    reached = before.next_offsets
    for topic, table in ((CONSUMER_OFFSETS, schemas.RECORDS), (JOURNAL, schemas.JOURNAL)):
        lookup = Lookup(source.source_options({"subscribe": topic}))
        try:
            planned = _plan(lookup, topic, reached.get(topic, {}), before.topic_ids.get(topic))
            if topic == CONSUMER_OFFSETS and (minutes := lookup.broker_config(_RETENTION)) is not None:
                load.retention_ms = int(minutes) * 60_000
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
        load.next_offsets[topic] = reached.get(topic, {}) | {
            str(where.partition): end for where, end in sorted(ends.items())
        }
        asked = {where: end for where, end in ends.items() if starts[where] < end}
        if asked:
            frames[table.name] = _read(spark, source, topic, {one: starts[one] for one in asked}, asked)
    pattern = source.source_options({"subscribePattern": ".*"})
    # A clock that was set back must not put a sample before those that have landed.
    found = sample_now(pattern, max(round(time.time() * 1_000), before.newest_end + 1))
    if samples and not before.newest_end:
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
            hint="fill a new lake with another --to: offsets of the two would be mixed up",
        )
    first, last = lookup.log_starts(partitions), lookup.log_ends(partitions)
    starts = {where: max(first[where], reached.get(str(where.partition), 0)) for where in partitions}
    return {where: min(starts[where], last[where]) for where in partitions}, last, topic_id


def _read(
    spark: "SparkSession",
    source: SourceCluster,
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


def _next(before: Manifest, source: str) -> Manifest:
    return replace(
        before, source=source, next_offsets=dict(before.next_offsets), topic_ids=dict(before.topic_ids)
    )


def _from_files(
    spark: "SparkSession", before: Manifest, root: Path
) -> tuple[Manifest, _Frames, list[LogEnd]]:
    from pyspark.sql import functions as f

    load = _next(before, str(root))
    frames: _Frames = {schemas.RECORDS.name: spark.read.format(_FORMAT).load(str(root))}
    segments = find_segments(root, CONSUMER_OFFSETS)
    reached, ends = _reach(before, load, segments)
    # Not behind the ends that were looked up: a broker may write meanwhile, and the next load begins there.
    for number, end in ends.items():
        fresh = f.col("src_offset").between(reached.get(number, 0), end - 1)
        kept = (f.col("src_partition") != number) | fresh
        frames[schemas.RECORDS.name] = frames[schemas.RECORDS.name].where(kept)
    try:
        journal = find_segments(root, JOURNAL)
    except SegmentError:
        return load, frames, sample_files(root)  # those of Kafka have none
    reached, ends = _reach(before, load, journal)
    shares = [
        (one.path, reached.get(one.partition, 0), min(one.end, ends[one.partition]))
        for one in journal
        if reached.get(one.partition, 0) < min(one.end, ends[one.partition])
    ]
    if shares:
        files = spark.createDataFrame(shares, "path string, start bigint, end bigint")
        values = files.mapInArrow(read_values, "offset bigint, value binary")
        frames[schemas.JOURNAL.name] = tables.journal(values)
    return load, frames, sample_files(root)


def _reach(
    before: Manifest, load: Manifest, segments: Sequence[SegmentFile]
) -> tuple[dict[int, int], dict[int, int]]:
    """From where to where each partition of these segments is landed; ``load`` takes note of it."""
    topic = segments[0].topic
    known = before.next_offsets.get(topic, {})
    by_partition: dict[int, list[SegmentFile]] = {}
    for segment in segments:
        by_partition.setdefault(segment.partition, []).append(segment)
    ends = {number: log_end(those) for number, those in sorted(by_partition.items())}
    load.next_offsets[topic] = known | {str(number): end for number, end in ends.items()}
    return {int(number): offset for number, offset in known.items()}, ends


def fill(spark: "SparkSession", lake: Lake, source: Source, tell: Tell, *, samples: int = 0) -> None:
    """Land what is new and make the tables again, once."""
    load = land(spark, lake, source, samples=samples)
    if load is not None:
        tell(load)
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
            tell(load)
        if is_stale and time.monotonic() - refreshed >= cadence.refresh:
            _refresh(spark, lake, tell)
            is_stale, refreshed = False, time.monotonic()
        stopping.wait(max(0.0, cadence.trigger - (time.monotonic() - began)))
    if is_stale:
        _refresh(spark, lake, tell)


def event_text(event: LakeStarted | Event) -> str:
    """One line for a person."""
    match event:
        case LakeStarted():
            return "started"
        case LoadLanded(number, rows):
            return f"load {number}: {_counts(rows)}"
        case Refreshed(seconds, rows):
            return f"tables made in {seconds:.1f} s: {_counts(rows)}"


def _counts(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in rows.items())


def event_json(event: LakeStarted | Event) -> dict[str, object]:
    """The same for a program."""
    match event:
        case LakeStarted():
            return {"event": "started"}
        case LoadLanded(number, rows):
            return {"event": "landed", "load": number, "rows": dict(rows)}
        case Refreshed(seconds, rows):
            return {"event": "refreshed", "seconds": seconds, "rows": dict(rows)}
