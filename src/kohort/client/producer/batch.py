"""Records of one partition that travel together, their sequence numbers, and the Produce requests made of
them. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from typing import ClassVar, NamedTuple, Protocol

from kohort.client.errors import BrokerError
from kohort.client.metadata import Metadata
from kohort.client.producer.settings import ProducerSettings
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import NO_TOPIC_ID, NodeId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import HEADER_SIZE, BatchFields, NewRecord, build_batch, read_records
from kohort.records.build import Payload, encode_payload, frame_payload
from kohort.records.compression import Codec
from kohort.records.record import Fields
from kohort.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

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
        """The bytes of the batch, made again."""
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


class Block(NamedTuple):
    """Encoded records of one partition that travel together."""

    partition: TopicPartition
    payload: Payload

    @property
    def size(self) -> int:
        """Bytes of the batch it becomes."""
        return HEADER_SIZE + len(self.payload.content)


class Receipt(Protocol):
    """Who waits for blocks; called on the thread of the producer's loop."""

    def stored(self, partition: TopicPartition, base_offset: int, records: int, /) -> None:
        """``count`` records are stored from this offset on; -1 if the broker did not say where."""

    def failed(self, error: KohortError, /) -> None:
        """A block was refused, or given up."""


class BlockBatch(Batch):
    """A batch made of a block: nothing can be added to it."""

    is_closed: ClassVar[bool] = True

    __slots__ = ("payload", "receipt")

    def __init__(
        self, block: Block, receipt: Receipt, order: tuple[int, ...], created: int, deadline: int
    ) -> None:
        super().__init__(block.partition, order, created, deadline)
        self.payload = block.payload
        self.receipt = receipt
        self.size = block.size

    @property
    def count(self) -> int:
        return self.payload.records_count

    def build(self, fields: BatchFields) -> bytes:
        return frame_payload(self.payload, fields)

    def succeed(self, base_offset: int, append_time: int = -1) -> None:
        self.receipt.stored(self.partition, base_offset, self.count)

    def fail(self, error: KohortError) -> None:
        self.receipt.failed(error)

    def halves(self) -> tuple[Batch, Batch]:
        records = [
            NewRecord(found.timestamp, found.key, found.value, found.headers)
            for found in read_records(frame_payload(self.payload))
        ]
        middle = len(records) // 2
        return self._half(0, 0, records[:middle]), self._half(1, middle, records[middle:])

    def _half(self, which: int, start: int, records: list[NewRecord]) -> Batch:
        block = Block(self.partition, encode_payload(records, self.payload.codec))
        half = BlockBatch(block, self.receipt, (*self.order, which), self.created, self.deadline)
        self.pass_on(half, start)
        return half


LAST_EPOCH = 32_767
_SEQUENCES = 0x7FFFFFFF  # the one after it is 0


@dataclass(slots=True)
class _Count:
    producer_id: int
    epoch: int
    next: int = 0


class Sequences:
    """The numbers of one producer, so that a batch sent again is stored once.

    It needs an id of a broker before it can number anything. Each partition counts for itself. When a broker
    expects another number than the one that is due (records were given up before, or the broker forgot us),
    the partition goes on under the next epoch, from 0: a producer without transactions may raise its epoch by
    itself (KIP-360), and brokers keep epochs by partition.
    """

    def __init__(self) -> None:
        self._identity: tuple[int, int] | None = None
        self._counts: dict[TopicPartition, _Count] = {}

    @property
    def needs_identity(self) -> bool:
        return self._identity is None

    def identify(self, producer_id: int, epoch: int) -> None:
        """Number partitions that have not begun yet under this id."""
        self._identity = (producer_id, epoch)

    def assign(self, partition: TopicPartition, records: int) -> Numbering:
        """The numbers of the next batch of a partition."""
        count = self._counts.get(partition)
        if count is None:
            assert self._identity is not None, "a batch cannot be numbered without a producer id"
            count = self._counts[partition] = _Count(*self._identity)
        numbering = Numbering(count.producer_id, count.epoch, count.next)
        count.next = (count.next + records) & _SEQUENCES
        return numbering

    def start_over(self, partition: TopicPartition) -> None:
        """Count from 0 under the next epoch; under another id once the epochs are used up."""
        count = self._counts.get(partition)
        if count is None:
            return
        if count.epoch < LAST_EPOCH:
            self._counts[partition] = _Count(count.producer_id, count.epoch + 1)
        else:
            self.renounce(partition)

    def renounce(self, partition: TopicPartition) -> None:
        """Go on under another producer id: this one is used up, or another producer has it."""
        count = self._counts.pop(partition, None)
        if count is not None and self._identity is not None and count.producer_id == self._identity[0]:
            self._identity = None


BY_NAME = 12  # Produce 13 names topics by id only
_HINTS = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic, or send smaller records",
    ErrorCode.INVALID_TIMESTAMP: "see message.timestamp.before.max.ms and …after.max.ms of the topic",
    ErrorCode.INVALID_RECORD: "a compacted topic takes no record without a key",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "choose another compression_type: this broker is too old for it",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer has our id; records after this one get a new one",
}


class Outgoing(NamedTuple):
    """A request with the batches in it, and the highest version that can carry it."""

    request: ProduceRequest
    batches: Sequence[Batch]
    highest: int | None


def pack(batches: Sequence[Batch], metadata: Metadata, settings: ProducerSettings) -> Outgoing:
    """One request to one node, with one batch for each of its partitions."""
    by_topic: dict[TopicName, list[PartitionProduceData]] = {}
    for batch in batches:
        topic, number = batch.partition
        piece = PartitionProduceData(index=number, records=batch.encode(settings.codec))
        by_topic.setdefault(topic, []).append(piece)
    ids = {topic: metadata.topic(topic).topic_id for topic in by_topic}
    request = ProduceRequest(
        acks=settings.acks_on_wire,
        timeout_ms=settings.request_timeout_ms,
        topic_data=[
            TopicProduceData(name=topic, topic_id=ids[topic], partition_data=pieces)
            for topic, pieces in by_topic.items()
        ],
    )
    return Outgoing(request, batches, BY_NAME if NO_TOPIC_ID in ids.values() else None)


def answers(outgoing: Outgoing, reply: ProduceResponse) -> list[tuple[Batch, PartitionProduceResponse]]:
    """Each batch with its part of the reply; one the broker left out counts as an unknown error."""
    names = {topic.topic_id: topic.name for topic in outgoing.request.topic_data}
    parts = {
        (topic.name or names.get(topic.topic_id, ""), part.index): part
        for topic in reply.responses
        for part in topic.partition_responses
    }
    missing = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="no answer")
    return [
        (batch, parts.get((batch.partition.topic, batch.partition.partition), missing))
        for batch in outgoing.batches
    ]


def refusal(batch: Batch, part: PartitionProduceResponse) -> BrokerError:
    """What the broker said about a batch, with the setting to look at where we know one."""
    message = part.error_message
    if part.record_errors:
        first = part.record_errors[0]
        message = f"record {first.batch_index} of the batch: {first.batch_index_error_message or message}"
    error = BrokerError(part.error_code, f"write to {batch.partition}", message)
    error.hint = next((hint for code, hint in _HINTS.items() if code == part.error_code), error.hint)
    return error


class BatchVerdict(Enum):
    """What becomes of a batch after its answer."""

    STORED = "stored, where the answer says"
    STORED_BEFORE = "stored by an earlier attempt; where, the broker forgot"
    AGAIN = "to be sent again, unchanged"
    MISNUMBERED = "to be sent again; with other numbers, unless batches before it were the reason"
    FENCED = "refused, and our producer id with it"
    TOO_LARGE = "to be sent in two halves"
    REFUSED = "refused for good"


_SPECIAL = {
    ErrorCode.NONE: BatchVerdict.STORED,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: BatchVerdict.STORED_BEFORE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: BatchVerdict.MISNUMBERED,
    ErrorCode.UNKNOWN_PRODUCER_ID: BatchVerdict.MISNUMBERED,
    ErrorCode.INVALID_PRODUCER_EPOCH: BatchVerdict.FENCED,
    ErrorCode.PRODUCER_FENCED: BatchVerdict.FENCED,
    ErrorCode.MESSAGE_TOO_LARGE: BatchVerdict.TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE: BatchVerdict.TOO_LARGE,
}


def verdict(code: int, *, records: int, is_numbered: bool) -> BatchVerdict:
    """What to do with a batch of ``records`` records after this error code."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return BatchVerdict.REFUSED  # of a newer broker: unknown whether it passes
    found = _SPECIAL.get(known, BatchVerdict.AGAIN if known.retriable else BatchVerdict.REFUSED)
    if found is BatchVerdict.TOO_LARGE and records < 2:
        return BatchVerdict.REFUSED
    if found in (BatchVerdict.MISNUMBERED, BatchVerdict.FENCED) and not is_numbered:
        return BatchVerdict.REFUSED
    return found
