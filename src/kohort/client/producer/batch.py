"""Records of one partition that travel together, and who waits to hear of each. No I/O."""

from itertools import repeat
from typing import ClassVar, NamedTuple, Protocol

from kohort.model.errors import KohortError
from kohort.model.ids import NodeId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import HEADER_SIZE, BatchFields, build_batch
from kohort.records.compression import Codec
from kohort.records.record import Fields

UNKNOWN_OFFSET = Offset(-1)


class RecordMetadata(NamedTuple):
    """Where a record is, and the timestamp it has there; the offset is -1 if the broker did not say."""

    topic: TopicName
    partition: Partition
    offset: Offset
    timestamp: int


class Delivery(Protocol):
    """Who waits for one record: the future of asyncio or of a thread, or a fake."""

    def done(self) -> bool: ...

    def set_result(self, result: RecordMetadata, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class Numbering(NamedTuple):
    """What makes a batch recognisable when it is sent again (KIP-98)."""

    producer_id: int
    epoch: int
    base_sequence: int


class Batch:
    """Open while records are added; its ``order`` among those of its partition never changes."""

    is_closed: ClassVar[bool] = (
        False  # whether it came complete, and neither takes records nor waits for more
    )

    __slots__ = (
        "attempts",
        "created",
        "deadline",
        "deliveries",
        "encoded",
        "is_misnumbered",
        "last_error",
        "may_be_stored",
        "node",
        "numbering",
        "order",
        "partition",
        "records",
        "size",
    )

    def __init__(
        self, partition: TopicPartition, order: tuple[int, ...], created: int, deadline: int
    ) -> None:
        self.partition = partition
        self.order = order
        self.created = created
        self.deadline = deadline
        self.records: list[Fields] = []  # the accumulator adds them, with their deliveries and sizes
        self.deliveries: list[Delivery] = []
        self.size = HEADER_SIZE
        self.attempts = 0
        self.node: NodeId | None = None  # who has it, while it is in flight
        self.numbering: Numbering | None = None
        self.is_misnumbered = False  # the broker expected another sequence number
        self.may_be_stored = False  # an attempt ended without an answer that says no
        self.encoded: bytes | None = None
        self.last_error: KohortError | None = None

    def __repr__(self) -> str:
        return (
            f"<Batch {self.order} for {self.partition}: {len(self.records)} records, tried {self.attempts} x>"
        )

    @property
    def count(self) -> int:
        """How many records it has."""
        return len(self.records)

    def encode(self, codec: Codec) -> bytes:
        """The bytes for the wire, made once: a repeated batch must be the same to be recognised."""
        if self.encoded is None:
            fields = BatchFields(codec=codec)
            if self.numbering is not None:
                fields = BatchFields(
                    codec=codec,
                    producer_id=self.numbering.producer_id,
                    producer_epoch=self.numbering.epoch,
                    base_sequence=self.numbering.base_sequence,
                )
            self.encoded = self.build(fields)
        return self.encoded

    def build(self, fields: BatchFields) -> bytes:
        """The bytes of the batch, made anew."""
        return build_batch(self.records, fields)

    def renumber(self, numbering: Numbering | None) -> None:
        self.numbering = numbering
        self.is_misnumbered = False
        self.encoded = None

    def succeed(self, base_offset: int, append_time: int = -1) -> None:
        """Tell everyone where their record is. ``append_time``: the broker's, if the topic wants that."""
        topic, number = self.partition
        count = len(self.deliveries)
        offsets = range(base_offset, base_offset + count) if base_offset >= 0 else repeat(base_offset, count)
        new = tuple.__new__  # half the time of calling the class
        for record, delivery, offset in zip(self.records, self.deliveries, offsets, strict=True):
            if not delivery.done():
                stamp = record[0] if append_time < 0 else append_time
                delivery.set_result(new(RecordMetadata, (topic, number, offset, stamp)))

    def fail(self, error: KohortError) -> None:
        for delivery in self.deliveries:
            if not delivery.done():
                delivery.set_exception(error)

    def halves(self) -> tuple["Batch", "Batch"]:
        """Two batches in its place, with the sequence numbers it had: those behind it keep theirs."""
        middle = len(self.records) // 2
        return self._part(0, 0, middle), self._part(1, middle, len(self.records))

    def _part(self, which: int, start: int, stop: int) -> "Batch":
        part = Batch(self.partition, (*self.order, which), self.created, self.deadline)
        part.records = self.records[start:stop]
        part.deliveries = self.deliveries[start:stop]
        part.size = HEADER_SIZE + (self.size - HEADER_SIZE) * (stop - start) // len(self.records)
        self.pass_on(part, start)
        return part

    def pass_on(self, part: "Batch", start: int) -> None:
        """What a part of it, from its record number ``start`` on, has from the whole."""
        part.attempts = self.attempts
        part.last_error = self.last_error
        if self.numbering is not None:
            base = self.numbering.base_sequence
            part.numbering = self.numbering._replace(base_sequence=(base + start) & 0x7FFFFFFF)
