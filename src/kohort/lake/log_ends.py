"""Samples of log ends: now, from a broker's answers about the past, or from files."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kohort.lake.record_rows import uuid_text
from kohort.lake.segments import find_segments, log_end
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import INTERNAL_TOPICS, TopicPartition
from kohort.spark.lookup import Lookup
from kohort.spark.options import SourceOptions

_CLOSE_MS = 1_000
_PARTITION = re.compile(r"(.+)-\d+")


class LogEnd(NamedTuple):
    """Where a log began and ended at a time in milliseconds."""

    ts: int
    topic: str
    partition: int
    log_start: int
    log_end: int
    topic_id: str | None


def sample_now(options: SourceOptions, now_ms: int) -> list[LogEnd]:
    """The ends of all topics that the options name."""
    lookup = Lookup(options)
    try:
        partitions = lookup.partitions(missing_ok=True)
        first, last = lookup.log_starts(partitions), lookup.log_ends(partitions)
        ids = {topic: uuid_text(found) for topic, found in lookup.topic_ids().items()}
    finally:
        lookup.close()
    return [LogEnd(now_ms, *one, first[one], last[one], ids.get(one.topic)) for one in partitions]


def sample_history(options: SourceOptions, now: Sequence[LogEnd], samples: int) -> list[LogEnd]:
    """Ends of the past: at a time a log ended before its first record of that time or later.

    At ``samples`` times, evenly from the oldest record there is until now.
    """
    lookup = Lookup(options)
    try:
        partitions = lookup.partitions(missing_ok=True)
        oldest = _oldest(lookup, now)
        if oldest is None:
            return []
        until = max(one.ts for one in now)
        found: list[LogEnd] = []
        for number in range(samples):
            at = oldest + (until - oldest) * number // samples
            ends = lookup.offsets_for_times(dict.fromkeys(partitions, at))
            found += [_at(one, at, ends.get(_place(one))) for one in now]
    finally:
        lookup.close()
    return found


def _place(one: LogEnd) -> TopicPartition:
    return TopicPartition(TopicName(one.topic), Partition(one.partition))


def _at(now: LogEnd, ts: int, offset: int | None) -> LogEnd:
    """The same log at an earlier time, when it ended at this offset; None: as it ends now."""
    return now._replace(ts=ts, log_end=now.log_end if offset is None else max(offset, now.log_start))


def _oldest(lookup: Lookup, now: Sequence[LogEnd]) -> int | None:
    """About when the first record was written: by halving the time since 1970."""
    starts = {_place(one): one.log_start for one in now if one.log_end > one.log_start}
    if not starts:
        return None
    low, high = 0, max(one.ts for one in now)
    while high - low > _CLOSE_MS:
        middle = (low + high) // 2
        there = lookup.offsets_for_times(dict.fromkeys(starts, middle))
        is_late = any(offset is None or offset > starts[where] for where, offset in there.items())
        low, high = (low, middle) if is_late else (middle, high)
    return low


def sample_files(root: Path) -> list[LogEnd]:
    """The end of each partition that has a directory, at the time its last segment was written to."""
    directories = [path for path in (*root.glob("*-*"), *root.glob("*/*-*")) if path.is_dir()]
    names = {found[1] for path in directories if (found := _PARTITION.fullmatch(path.name))}
    ends: list[LogEnd] = []
    for topic in sorted(names - set(INTERNAL_TOPICS)):
        segments = find_segments(root, topic)
        for number in sorted({segment.partition for segment in segments}):
            mine = [segment for segment in segments if segment.partition == number]
            written = round(Path(mine[-1].path).stat().st_mtime * 1_000)
            topic_id = _topic_id(Path(mine[-1].path).parent)
            ends.append(LogEnd(written, topic, number, mine[0].base, log_end(mine), topic_id))
    return ends


def _topic_id(directory: Path) -> str | None:
    """From the file that Kafka keeps beside the segments."""
    path = directory / "partition.metadata"
    found = re.search(r"^topic_id: (\S+)$", path.read_text(), re.MULTILINE) if path.is_file() else None
    return found[1] if found else None


def write_log_ends(path: Path, ends: Sequence[LogEnd], load: int) -> None:
    """Parquet files by date, without Spark: there are few rows."""
    from datetime import UTC, datetime

    from pyarrow import lib as pa
    from pyarrow.parquet import write_table

    times = pa.timestamp("us", "UTC")
    kinds = (times, pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.string())
    by_date: dict[str, list[LogEnd]] = {}
    for one in ends:
        day = datetime.fromtimestamp(one.ts / 1_000, UTC).date().isoformat()
        by_date.setdefault(day, []).append(one._replace(ts=one.ts * 1_000))
    for day, those in by_date.items():
        columns = [
            pa.array(column, kind) for column, kind in zip(zip(*those, strict=True), kinds, strict=True)
        ]
        columns.append(pa.array([load] * len(those), pa.int32()))
        target = path / f"date={day}"
        target.mkdir(parents=True)
        write_table(  # type: ignore[no-untyped-call]  # pyarrow has no types yet
            pa.Table.from_arrays(columns, [*LogEnd._fields, "load"]),
            target / "log_ends.parquet",
            compression="zstd",
        )
