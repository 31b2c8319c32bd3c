"""Records as an application gets them, what read_committed leaves out of them, and errors of reading."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition
from kohort.primitives.buffers import Buffer
from kohort.records.batch import BatchHeader, Header, read_records
from kohort.records.control import ControlType, control_type
from kohort.wire.messages.fetch import AbortedTransaction, PartitionData

Deserializer = Callable[[bytes], object]
"""Makes something of the bytes of a key or value; None is never passed to it."""


class ConsumerRecord(NamedTuple):
    """One record and where it stood. Key and value are bytes or None unless a deserializer is set."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Sequence[Header] = ()
    leader_epoch: int = -1
    timestamp_type: int = 0  # 0: set by the producer, 1: by the broker at the append


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How bytes become records."""

    check_crcs: bool = True
    read_committed: bool = False
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    @property
    def deserializes(self) -> bool:
        return self.key_deserializer is not None or self.value_deserializer is not None


class AbortedProducers:
    """Follows the batches of one reply, in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = deque(sorted((each.first_offset, each.producer_id) for each in aborted))
        self._active: set[int] = set()

    def skips(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        while self._upcoming and self._upcoming[0][0] <= header.last_offset:
            self._active.add(self._upcoming.popleft()[1])
        return header.is_transactional and header.producer_id in self._active

    def see_marker(self, blob: Buffer, position: int, header: BatchHeader) -> None:
        """A control batch: an ABORT ends the aborted transaction of its producer."""
        for record in read_records(blob, position, header):
            if control_type(record.key) is ControlType.ABORT:
                self._active.discard(header.producer_id)


def leaves_out_aborted(answered: PartitionData, blob: Buffer) -> Callable[[int, BatchHeader], bool]:
    """What read_committed passes over in an answer: asked about batches and their positions, in order."""
    aborted = AbortedProducers(answered.aborted_transactions or ())

    def leaves_out(position: int, header: BatchHeader) -> bool:
        skipped = aborted.skips(header)
        if header.is_control:
            aborted.see_marker(blob, position, header)
        return skipped

    return leaves_out


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
    """There is no committed offset, and no rule where to begin."""

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

    ``divergent`` says for each partition up to where both logs agree, None where that is unknown.
    """

    def __init__(self, divergent: Mapping[TopicPartition, int | None]) -> None:
        names = ", ".join(map(str, sorted(divergent)))
        super().__init__(f"the log of {names} was truncated behind the position", hint=_RESET_HINT)
        self.divergent = dict(divergent)
