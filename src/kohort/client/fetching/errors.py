"""What an application hears when reading cannot go on by itself.

KohortError
 ├── BadRecordError             a batch that is damaged, or a record a deserializer refuses
 ├── NoOffsetForPartitionError  nothing committed, and auto.offset.reset is none
 ├── OffsetOutOfRangeError      the position is not in the log, and auto.offset.reset is none
 └── LogTruncationError         the log was cut behind the position, and auto.offset.reset is none
"""

from collections.abc import Iterable, Mapping

from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition

_RESET_HINT = "seek to where to read on, or set auto_offset_reset to earliest or latest"


class BadRecordError(KohortError):
    """The record at ``offset`` cannot be read. Every poll says so again until the consumer seeks past it."""

    def __init__(self, partition: TopicPartition, offset: int, reason: object) -> None:
        super().__init__(
            f"cannot read {partition} at offset {offset}: {reason}",
            hint=f"seek to offset {offset + 1} to leave the record out",
        )
        self.partition = partition
        self.offset = offset


class NoOffsetForPartitionError(KohortError):
    """Nobody said where to begin."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = tuple(sorted(partitions))
        names = ", ".join(map(str, self.partitions))
        super().__init__(f"nothing is committed for {names}, and auto_offset_reset is none", hint=_RESET_HINT)


class OffsetOutOfRangeError(KohortError):
    """The position is before the start or behind the end of the log."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(f"offset {offset} of {partition} is not in its log", hint=_RESET_HINT)
        self.partition = partition
        self.offset = offset


class LogTruncationError(KohortError):
    """Records that were read are not in the log of the new leader: there may be others in their place.

    ``divergent`` says for each partition up to where both logs agree, None where nobody knows.
    """

    def __init__(self, divergent: Mapping[TopicPartition, int | None]) -> None:
        names = ", ".join(map(str, sorted(divergent)))
        super().__init__(f"the log of {names} was truncated behind the position", hint=_RESET_HINT)
        self.divergent = dict(divergent)
