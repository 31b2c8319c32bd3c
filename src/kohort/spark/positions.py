"""From places to offsets: where each partition starts or ends, by asking a lookup."""

from collections.abc import Collection, Mapping
from typing import Protocol, assert_never

from kohort.model.topics import TopicPartition
from kohort.spark.errors import NoMatchingOffsetError, OptionError
from kohort.spark.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    FromGroup,
    Latest,
    Offsets,
    OffsetsSpec,
    show,
)


class Logs(Protocol):
    """The part of ``Lookup`` that is asked here."""

    def log_starts(self, partitions: Collection[TopicPartition]) -> Offsets: ...
    def log_ends(self, partitions: Collection[TopicPartition]) -> Offsets: ...
    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...
    def committed(self, partitions: Collection[TopicPartition]) -> Offsets: ...


def resolve(place: OffsetsSpec, partitions: Collection[TopicPartition], logs: Logs, *, reset: str) -> Offsets:
    """The offset of a place in each partition; ``reset`` is for partitions the group has no commit for.

    Raises OptionError if JSON does not name exactly the partitions, NoMatchingOffsetError for a time that no
    record reaches.
    """
    match place:
        case Earliest():
            return logs.log_starts(partitions)
        case Latest():
            return logs.log_ends(partitions)
        case FromGroup():
            return from_group(partitions, logs, reset)
        case AtOffsets(offsets):
            _check_same(offsets, partitions)
            return _named(offsets, logs)
        case AtTimestamp(timestamp, or_latest):
            return _at_times(dict.fromkeys(partitions, timestamp), logs, or_latest)
        case AtTimestamps(timestamps, or_latest):
            _check_same(timestamps, partitions)
            return _at_times(timestamps, logs, or_latest)
        case _:
            assert_never(place)


def from_group(partitions: Collection[TopicPartition], logs: Logs, reset: str) -> Offsets:
    """What the group has committed, and the beginning or end where it has not."""
    committed = logs.committed(partitions)
    fresh = [where for where in partitions if where not in committed]
    others = logs.log_starts(fresh) if reset == "earliest" else logs.log_ends(fresh)
    return committed | others


def _named(offsets: Mapping[TopicPartition, int], logs: Logs) -> Offsets:
    starts = logs.log_starts([where for where, offset in offsets.items() if offset == EARLIEST])
    ends = logs.log_ends([where for where, offset in offsets.items() if offset == LATEST])
    return {**offsets, **starts, **ends}


def _at_times(times: Mapping[TopicPartition, int], logs: Logs, or_latest: bool) -> Offsets:
    found = logs.offsets_for_times(times)
    late = [where for where in sorted(times) if found[where] is None]
    if late and not or_latest:
        raise NoMatchingOffsetError(late[0], times[late[0]])
    return {where: offset for where, offset in found.items() if offset is not None} | logs.log_ends(late)


def _check_same(named: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> None:
    odd = set(named) ^ set(partitions)
    if odd:
        raise OptionError(
            f"offsets or timestamps must be given for exactly the partitions that are read: {show(odd)}",
            hint="-1 stands for latest and -2 for earliest",
        )
