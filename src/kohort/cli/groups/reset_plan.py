"""Where ``reset-offsets`` sets a group to: wishes, and what they come to within the logs. No I/O."""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, assert_never

from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?\Z")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)


class ResetError(KohortError):
    """An option that cannot be understood, or cannot be fulfilled."""


class ResetKind(StrEnum):
    """The options that say where to."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    TIME = "--to-datetime"
    DURATION = "--by-duration"
    FILE = "--from-file"


class ResetRequest(NamedTuple):
    """Where to: the kind, and its offset, number of offsets, or milliseconds since 1970."""

    kind: ResetKind
    number: int = 0
    offsets: Mapping[TopicPartition, int] = {}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the partitions: first and next offset, what is committed, what a time leads to."""

    ranges: Mapping[TopicPartition, tuple[int, int]]
    committed: Mapping[TopicPartition, int]
    at_time: Mapping[TopicPartition, int] = field(default_factory=dict)  # -1: nothing is as new


class OffsetReset(NamedTuple):
    """One partition's way: from what is committed to the new offset, with what is to be said about it."""

    partition: TopicPartition
    current: int | None
    new: int
    note: str | None = None


def plan_resets(wish: ResetRequest, partitions: Iterable[TopicPartition], facts: Facts) -> list[OffsetReset]:
    """The new offset of each partition, within its log as Kafka's tool keeps it; raises ResetError."""
    resets = []
    for partition in sorted(partitions):
        if partition not in facts.ranges:
            raise ResetError(
                f"{partition} cannot be asked for its offsets",
                hint="`kohort topics describe` shows its leader",
            )
        wanted, note = _wanted(wish, partition, facts)
        offset, clamped = _within(wanted, *facts.ranges[partition])
        resets.append(OffsetReset(partition, facts.committed.get(partition), offset, clamped or note))
    return resets


def _wanted(wish: ResetRequest, partition: TopicPartition, facts: Facts) -> tuple[int, str | None]:
    first, end = facts.ranges[partition]
    match wish.kind:
        case ResetKind.EARLIEST:
            return first, None
        case ResetKind.LATEST:
            return end, None
        case ResetKind.OFFSET:
            return wish.number, None
        case ResetKind.FILE:
            return wish.offsets[partition], None
        case ResetKind.SHIFT:
            return _committed(partition, facts) + wish.number, None
        case ResetKind.CURRENT:
            if partition in facts.committed:
                return facts.committed[partition], None
            return end, "nothing was committed: set to the end"
        case ResetKind.TIME | ResetKind.DURATION:
            found = facts.at_time[partition]
            return (found, None) if found >= 0 else (end, "no record is that new: set to the end")
        case _:
            assert_never(wish.kind)


def _committed(partition: TopicPartition, facts: Facts) -> int:
    offset = facts.committed.get(partition)
    if offset is None:
        raise ResetError(
            f"cannot shift {partition}: nothing is committed for it",
            hint="use --to-earliest, --to-latest or --to-offset for it",
        )
    return offset


def _within(offset: int, first: int, end: int) -> tuple[int, str | None]:
    if offset < first:
        return first, f"{offset} is before the log: set to its first offset"
    if offset > end:
        return end, f"{offset} is beyond the log: set to its end"
    return offset, None


# --- texts of options ---------------------------------------------------------------------------


def parse_time(text: str) -> int:
    """``2026-01-31T12:00:00.000`` in milliseconds since 1970; without a zone it is local time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ResetError(
            f"--to-datetime: cannot understand {text!r}",
            hint="for example 2026-01-31T12:00:00 or 2026-01-31T11:00:00Z",
        ) from None
    return round(moment.astimezone().timestamp() * 1_000)


def not_before_1970(timestamp: int) -> int:
    """The time, or the oldest there is: on the wire, -1 and -2 are no times but the ends of a log."""
    return max(timestamp, 0)


def parse_duration(text: str) -> int:
    """``P1DT2H30M`` in milliseconds."""
    found = _DURATION.match(text)
    if found is None or not any(found.groups()):
        raise ResetError(
            f"--by-duration: cannot understand {text!r}", hint="for example PT30M, PT2H, P1D, P7DT12H"
        )
    parts = (float(part) if part else 0.0 for part in found.groups())
    return round(sum(part * unit for part, unit in zip(parts, _UNITS_MS, strict=True)))


def parse_offsets(lines: Iterable[str], group: str) -> dict[TopicPartition, int]:
    """The CSV of ``--export``: topic, partition, offset; with a group first, only the lines of ours count."""
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        if len(row) == 4:
            owner, *row = row
            if owner != group:
                continue
        try:
            topic, partition, offset = row
            offsets[TopicPartition(TopicName(topic), Partition(int(partition)))] = int(offset)
        except ValueError:
            raise ResetError(
                f"line {number} is not topic,partition,offset: {','.join(row)!r}",
                hint="--export writes such a file",
            ) from None
    return offsets


def export_lines(resets: Iterable[OffsetReset]) -> list[str]:
    """The same form as ``parse_offsets`` reads, and as Kafka's tool does."""
    return [f"{one.partition.topic},{one.partition.partition},{one.new}" for one in resets]
