"""Records as an application gets them: what one Fetch brought for one partition, decoded as it is taken."""

import importlib.util
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kohort.client.subscription import NO_EPOCH
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition
from kohort.primitives.buffers import Buffer
from kohort.records.batch import HEADER_SIZE, BatchHeader, CorruptBatchError, Header, check_crc, read_records
from kohort.records.control import ControlType, control_type
from kohort.records.header import batches
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


if TYPE_CHECKING:
    from kohort.client.fetching.bulk import Bulk


class OffsetAndEpoch(NamedTuple):
    """Behind what was handed out: the next offset, and the epoch of the batch before it."""

    offset: int
    epoch: int


class RecordRun(Protocol):
    """Records that follow each other. ``portion`` shows the next ones, ``advance`` hands them out."""

    end: int
    """The byte of the log behind its last batch."""

    @property
    def left(self) -> int:
        """How many records it still has."""
        ...

    def portion(self, limit: int) -> list[ConsumerRecord]:
        """Some of the records that are left, at most ``limit``; asked again, the same ones."""
        ...

    def advance(self, count: int) -> OffsetAndEpoch:
        """Move behind ``count`` records of the last portion, at least one."""
        ...


class BatchRun:
    """The records of one batch that lie at or behind a position."""

    __slots__ = ("_at", "_header", "_records", "end")

    def __init__(self, records: list[ConsumerRecord], header: BatchHeader, end: int) -> None:
        self.end = end
        self._records = records
        self._header = header
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._records) - self._at

    def portion(self, limit: int) -> list[ConsumerRecord]:
        return self._records[self._at : self._at + limit]

    def advance(self, count: int) -> OffsetAndEpoch:
        self._at += count
        header = self._header
        if self._at < len(self._records):
            return OffsetAndEpoch(self._records[self._at - 1].offset + 1, header.partition_leader_epoch)
        # Behind the whole batch: compaction may have removed the last records of it.
        return OffsetAndEpoch(header.next_offset, header.partition_leader_epoch)


_new = tuple.__new__  # half the time of calling the class
# Below this, the fixed cost of numpy's operations is more than they save.
_WORTH_NUMPY = 32 * 1024


@cache
def _numpy_is_there() -> bool:
    return importlib.util.find_spec("numpy") is not None


class Chunk:
    """A piece of one partition's log. ``next_offset`` and ``epoch`` move with what is taken."""

    __slots__ = (
        "_aborted", "_bulk", "_cursor", "_end", "_is_fresh", "_run", "answered", "blob", "epoch",
        "next_offset", "partition", "reading",
    )  # fmt: skip

    def __init__(
        self, partition: TopicPartition, fetch_offset: int, answered: PartitionData, reading: Reading
    ) -> None:
        self.partition = partition
        self.answered = answered
        self.next_offset = fetch_offset
        self.epoch = NO_EPOCH  # of the last batch records were taken from
        self.reading = reading
        self.blob = answered.records if isinstance(answered.records, bytes | memoryview) else b""
        self._begin()

    def _begin(self) -> None:
        aborted = self.answered.aborted_transactions or ()
        self._aborted = AbortedProducers(aborted) if self.reading.read_committed else None
        self._is_fresh = True  # not yet looked at whether the batches can be read at once
        self._bulk: Bulk | None = None
        self._run: RecordRun | None = None
        self._cursor, self._end = 0, len(self.blob)

    def __repr__(self) -> str:
        return f"<Chunk of {self.partition} at offset {self.next_offset}, byte {self._cursor}>"

    @property
    def error_code(self) -> int:
        return self.answered.error_code

    @property
    def is_drained(self) -> bool:
        """Nothing more can come out of it."""
        return (self._run is None or not self._run.left) and self._end - self._cursor < HEADER_SIZE

    @property
    def ready(self) -> int:
        """How many records can be taken for certain, without anything else happening."""
        return 0 if self._run is None else self._run.left

    @property
    def end_offset(self) -> int | None:
        """The offset behind all of it, if that is known already."""
        return None if self._bulk is None else self._bulk.behind.offset

    def go_on(self, offset: int, epoch: int, *, drained: bool) -> None:
        """Go on behind what another reader took out of ``blob``: at ``offset``, or with nothing left."""
        self._begin()
        self.next_offset, self.epoch = offset, epoch
        if drained:
            self._cursor = len(self.blob)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to ``limit`` records.

        Raises BadRecordError if the very next one cannot be read, as often as it is asked; those before it
        are returned first.
        """
        taken: list[ConsumerRecord] = []
        try:
            while len(taken) < limit and (run := self._run_with_records()) is not None:
                portion = run.portion(limit - len(taken))
                if self.reading.deserializes:
                    self._deserialize(run, portion, taken)
                else:
                    taken += portion
                    self._move(run.advance(len(portion)))
        except BadRecordError:
            if not taken:
                raise
        return taken

    def _move(self, behind: OffsetAndEpoch) -> None:
        self.next_offset, self.epoch = max(self.next_offset, behind.offset), behind.epoch

    def _deserialize(
        self, run: RecordRun, portion: list[ConsumerRecord], taken: list[ConsumerRecord]
    ) -> None:
        """Take records as far as the deserializers like them."""
        key_of, value_of = self.reading.key_deserializer, self.reading.value_deserializer
        for done, one in enumerate(portion):
            try:
                key = one.key if key_of is None or one.key is None else key_of(one.key)
                value = one.value if value_of is None or one.value is None else value_of(one.value)
            except Exception as error:
                if done:
                    self._move(run.advance(done))
                self.next_offset = one.offset
                raise BadRecordError(
                    self.partition, one.offset, f"a deserializer raised {error!r}"
                ) from error
            taken.append(_new(ConsumerRecord, (*one[:4], key, value, *one[6:])))
        self._move(run.advance(len(portion)))

    # --- what comes next ----------------------------------------------------------------------

    def _run_with_records(self) -> RecordRun | None:
        """One that has some left; None at the end."""
        if self._run is not None and self._run.left:
            return self._run
        self._run = None
        if self._is_fresh:
            self._is_fresh = False
            if len(self.blob) >= _WORTH_NUMPY and _numpy_is_there():
                from kohort.client.fetching.bulk import open_bulk

                self._bulk = open_bulk(self.partition, self.next_offset, self.answered, self.reading)
        if self._bulk is not None:
            try:
                return self._next_of(self._bulk)
            except CorruptBatchError:
                # One after another, from the start: what is before it is handed out, and what is wrong said.
                self._begin()
                self._is_fresh = False
        return self._next_batch()

    def _next_of(self, bulk: "Bulk") -> RecordRun | None:
        run = next(bulk.runs, None)
        self._end = bulk.end
        if run is not None:
            self._run, self._cursor = run, run.end - bulk.base
            return run
        if self._cursor < bulk.end:  # over markers, and batches whose records are all gone
            self._cursor = bulk.end
            self._move(bulk.behind)
        return None

    def _next_batch(self) -> RecordRun | None:
        """The records of the next batch that has any."""
        while True:
            try:
                found = next(batches(self.blob, self._cursor), None)
                if found is None:
                    self._cursor = self._end
                    return None
                records = self._read(*found)
            except CorruptBatchError as error:
                raise BadRecordError(self.partition, self.next_offset, error) from error
            at, header = found
            self._cursor = at + header.size
            first = self.next_offset
            if header.next_offset <= first:
                records = []
            elif header.base_offset < first:  # only the batch a position lies in has others
                records = [record for record in records if record.offset >= first]
            if records:
                self._run = BatchRun(records, header, self._cursor)
                return self._run
            self._move(OffsetAndEpoch(header.next_offset, header.partition_leader_epoch))

    def _read(self, at: int, header: BatchHeader) -> list[ConsumerRecord]:
        if self.reading.check_crcs:
            check_crc(self.blob, at, header)
        skipped = self._aborted is not None and self._aborted.skips(header)
        if header.is_control:
            if self._aborted is not None:
                self._aborted.see_marker(self.blob, at, header)
            return []
        if skipped:
            return []
        start = self.partition
        tail = (header.partition_leader_epoch, int(header.is_log_append_time))
        return [_new(ConsumerRecord, (*start, *one, *tail)) for one in read_records(self.blob, at, header)]
