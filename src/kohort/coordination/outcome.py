"""What a command led to: events that are true now, records for the log, replies that may leave."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kohort.coordination.positions import NOTHING, Positions, Reply
from kohort.model.ids import Now, ProducerId, ReplyTo, WallTime
from kohort.records.build import build_batch
from kohort.records.header import HEADER_SIZE
from kohort.records.record import NewRecord

E = TypeVar("E")
R = TypeVar("R")

KeyValue: TypeAlias = tuple[bytes, bytes | None]  # a null value is a tombstone

_RECORD_OVERHEAD = 32  # at most: the lengths and deltas of a record, beside its key and value


class BatchProducer(NamedTuple):
    """In whose name a batch is written: a transaction's producer. Such a batch is never shared."""

    producer_id: ProducerId
    epoch: int
    is_control: bool = False  # the batch is the marker that ends the transaction


class PositionedAppend(NamedTuple):
    """Records for the log, to be appended in order of position."""

    position: int
    records: tuple[KeyValue, ...]
    timestamp: WallTime
    is_atomic: bool = True  # all records in one batch; else the batches may be cut anywhere
    producer: BatchProducer | None = None
    size: int = 0  # of a batch of these records, at most


class CommandOutcome(Generic[E, R]):
    """Collects while a command is handled; read by the runtime afterwards.

    Events are applied when they are emitted, so the next decision sees them. What they store gets one
    position; replies that rest on a position that is not stored yet wait in ``Positions``.
    """

    __slots__ = (
        "_positions",
        "_records",
        "append",
        "effects",
        "events",
        "is_atomic",
        "now",
        "position",
        "producer",
        "replies",
    )

    def __init__(self, positions: Positions[R], now: Now) -> None:
        self.now = now
        self.events: list[E] = []
        self.replies: list[Reply[R]] = []
        self.effects: list[object] = []  # what the shell is to do and to answer with a command
        self.append: PositionedAppend | None = None
        self.position = NOTHING  # of what this outcome stores; ``NOTHING`` as long as that is nothing
        self.is_atomic = True
        self.producer: BatchProducer | None = None
        self._positions = positions
        self._records: list[KeyValue] = []

    def write(self, subject: Hashable, records: Sequence[KeyValue]) -> None:
        """Store records that change ``subject``."""
        if not self.position:
            self.position = self._positions.write()
        self._positions.changed(subject, self.position)
        self._records += records

    @property
    def records(self) -> Sequence[KeyValue]:
        """What is written so far."""
        return self._records

    def reply(self, reply_to: ReplyTo, body: R, after: int = NOTHING) -> None:
        """Answer a request, at once or when the log has stored what the answer rests on."""
        if after > self._positions.stored:
            self._positions.park(Reply(reply_to, body, after))
        else:
            self.replies.append(Reply(reply_to, body, after))

    def fits_with(self, records: Sequence[KeyValue], max_batch_bytes: int) -> bool:
        """Whether one batch can hold these records beside those that are written already."""
        everything = (*self._records, *records) if self._records else records
        if HEADER_SIZE + size_at_most(everything) <= max_batch_bytes:
            return True
        batch = build_batch([NewRecord(self.now.wall, key, value) for key, value in everything])
        return len(batch) <= max_batch_bytes

    def close(self) -> None:
        """Make the append of what was written; called once, when the command is handled."""
        if self._records:
            records = tuple(self._records)
            size = HEADER_SIZE + size_at_most(records)
            self.append = PositionedAppend(
                self.position, records, self.now.wall, self.is_atomic, self.producer, size
            )


def size_at_most(records: Iterable[KeyValue]) -> int:
    """How many bytes these records can take in a batch; a little more than they do."""
    size = 0
    for key, value in records:
        size += len(key) + _RECORD_OVERHEAD
        if value is not None:
            size += len(value)
    return size
