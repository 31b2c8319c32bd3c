"""Batches whose records came encoded: only the header waits for a producer id and numbers. No I/O."""

from typing import ClassVar, NamedTuple, Protocol

from kohort.client.producer.batch import Batch
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition
from kohort.records.batch import HEADER_SIZE, BatchFields, NewRecord, read_records
from kohort.records.build import Payload, encode_payload, frame_payload


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
        """So many records are at this offset and behind it; -1 if the broker did not say where."""

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
