"""Write records to a topic and learn where they went: what the command line and small programs need.

One request at a time, acknowledged by all replicas, and numbered (KIP-98) so that a repeated request does not
store its records twice.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from kohort.client.cluster import Cluster, Role
from kohort.client.errors import BrokerError, UnknownTopicError, check
from kohort.client.metadata import TopicInfo
from kohort.client.partitioner import Partitioner
from kohort.client.retry import Deadline
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, NodeId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchFields, Header, NewRecord, build_batch
from kohort.records.compression import Codec
from kohort.wire.apis import ApiKey
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_ALL_REPLICAS = -1
_BY_NAME = 12  # Produce 13 names topics by id only
_INIT_PRODUCER_ID = 5  # 6 is for transactions in two phases
_NEW_TOPIC_MS = 10_000  # how long a topic may take to be created by our asking for it
_SEQUENCES = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How records are packed; a batch is closed when its records have this many bytes or this number."""

    codec: Codec = Codec.NONE
    batch_bytes: int = 512 * 1024
    batch_records: int = 10_000


class Outgoing(NamedTuple):
    """A record to be written. Without a partition its key decides, without a timestamp the clock."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


class Written(NamedTuple):
    """Where a record went, and the timestamp it has there."""

    partition: Partition
    offset: Offset
    timestamp: int


class _Piece(NamedTuple):
    """Records of one partition that travel in one batch, with their places in the caller's list."""

    indexes: list[int]
    records: list[NewRecord]


class _ProducerIdentity(NamedTuple):
    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1

    @property
    def numbers_batches(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


class TopicWriter:
    """Writes to one topic. Not for several tasks at once: sequence numbers need an order."""

    def __init__(self, cluster: Cluster, topic: str, options: WriteOptions | None = None) -> None:
        self._cluster = cluster
        self._topic = TopicName(topic)
        self._options = options or WriteOptions()
        self._partitioner = Partitioner()
        self._identity: _ProducerIdentity | None = None
        self._sequences: dict[int, int] = {}

    async def write(self, records: Sequence[Outgoing]) -> list[Written]:
        """Write them all, and say of each where it went, in the order given.

        Raises UnknownTopicError if there is no such topic and the broker does not create it, BrokerError if
        it refuses a batch: then others of the same call may have been written.
        """
        topic = await self._look_up()
        self._partitioner.next_turn()
        queues = self._pack(records, len(topic.partitions))
        written: dict[int, Written] = {}
        while queues:
            round_of = {number: queue.popleft() for number, queue in queues.items()}
            await self._write_round(round_of, queues, written)
            queues = {number: queue for number, queue in queues.items() if queue}
        return [written[index] for index in range(len(records))]

    async def _look_up(self) -> TopicInfo:
        async def find() -> TopicInfo:
            metadata = await self._cluster.topics([self._topic], create=True)
            try:
                return metadata.topic(self._topic)
            except UnknownTopicError as error:
                error.retriable = True  # Kafka answers first and creates the topic then
                raise

        patience = min(_NEW_TOPIC_MS, self._cluster.options.api_timeout_ms)
        return await self._cluster.retry(find, Deadline(patience))

    def _pack(self, records: Sequence[Outgoing], partitions: int) -> dict[int, deque[_Piece]]:
        queues: dict[int, deque[_Piece]] = {}
        sizes: dict[int, int] = {}
        now = time.time_ns() // 1_000_000
        for index, record in enumerate(records):
            number = record.partition
            if number is None:
                number = self._partitioner.place(record.key, partitions)
            elif not 0 <= number < partitions:
                raise UnknownTopicError(
                    self._topic, f"no partition {number}: it has the partitions 0 to {partitions - 1}"
                )
            size = len(record.key or b"") + len(record.value or b"") + 32
            queue = queues.setdefault(number, deque())
            if not queue or self._is_full(queue[-1], sizes[number] + size):
                queue.append(_Piece([], []))
                sizes[number] = 0
            sizes[number] += size
            timestamp = now if record.timestamp is None else record.timestamp
            queue[-1].indexes.append(index)
            queue[-1].records.append(NewRecord(timestamp, record.key, record.value, record.headers))
        return queues

    def _is_full(self, piece: _Piece, size: int) -> bool:
        return size > self._options.batch_bytes or len(piece.records) >= self._options.batch_records

    async def _write_round(
        self, pieces: dict[int, _Piece], queues: dict[int, deque[_Piece]], written: dict[int, Written]
    ) -> None:
        """One batch to each partition. One that is too large goes back to its queue in two halves."""
        identity = await self._identify()
        batches = {number: self._batch(number, piece, identity) for number, piece in pieces.items()}

        async def ask(
            node: NodeId, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, PartitionProduceResponse | BrokerError]:
            return await self._produce(node, {number: batches[number] for _, number in partitions})

        asked = [TopicPartition(self._topic, Partition(number)) for number in pieces]
        results = await self._cluster.ask_leaders(asked, ask)
        refusal: BrokerError | None = None
        for partition, result in results.items():
            piece = pieces[partition.partition]
            if isinstance(result, PartitionProduceResponse):
                self._note(partition.partition, piece, result, written)
            elif result.code == ErrorCode.MESSAGE_TOO_LARGE and len(piece.records) > 1:
                queues[partition.partition].extendleft(reversed(_halves(piece)))
            else:
                refusal = refusal or result
        if refusal is not None:
            self._identity = None  # the broker may now expect other numbers: start afresh
            raise refusal

    def _batch(self, number: int, piece: _Piece, identity: _ProducerIdentity) -> bytes:
        fields = BatchFields(
            codec=self._options.codec,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=self._sequences.get(number, 0) if identity.numbers_batches else NO_SEQUENCE,
        )
        return build_batch(piece.records, fields)

    def _note(
        self, number: int, piece: _Piece, result: PartitionProduceResponse, written: dict[int, Written]
    ) -> None:
        sequence = self._sequences.get(number, 0) + len(piece.records)
        self._sequences[number] = sequence & _SEQUENCES
        stamp = result.log_append_time_ms
        for delta, (index, record) in enumerate(zip(piece.indexes, piece.records, strict=True)):
            timestamp = record.timestamp if stamp is None or stamp < 0 else stamp
            written[index] = Written(Partition(number), Offset(result.base_offset + delta), timestamp)

    async def _produce(
        self, node: NodeId, batches: dict[int, bytes]
    ) -> dict[TopicPartition, PartitionProduceResponse | BrokerError]:
        topic_id = self._cluster.metadata.topic(self._topic).topic_id
        data = [PartitionProduceData(index=number, records=batch) for number, batch in batches.items()]
        request = ProduceRequest(
            acks=_ALL_REPLICAS,
            timeout_ms=self._cluster.options.request_timeout_ms,
            topic_data=[TopicProduceData(name=self._topic, topic_id=topic_id, partition_data=data)],
        )
        connection = await self._cluster.connection(node)
        highest = _BY_NAME if topic_id == NO_TOPIC_ID else None
        reply = await connection.send(request, ProduceResponse, highest=highest)
        return {
            TopicPartition(self._topic, Partition(one.index)): self._result(one)
            for topic in reply.responses
            for one in topic.partition_responses
        }

    def _result(self, answered: PartitionProduceResponse) -> PartitionProduceResponse | BrokerError:
        if not answered.error_code:
            return answered
        message = answered.error_message
        if answered.record_errors:
            first = answered.record_errors[0]
            message = f"record {first.batch_index} of the batch: {first.batch_index_error_message or message}"
        return BrokerError(answered.error_code, f"write to {self._topic}-{answered.index}", message)

    async def _identify(self) -> _ProducerIdentity:
        """A producer id of our own, so that repeated batches are recognised; none if nobody gives any."""
        if self._identity is None:
            self._sequences.clear()
            connection = await self._cluster.retry(lambda: self._cluster.connection(Role.ANY))
            if ApiKey.INIT_PRODUCER_ID not in connection.api_versions:
                self._identity = _ProducerIdentity()
                return self._identity
            reply = await self._cluster.ask(
                Role.ANY, InitProducerIdRequest(transactional_id=None), InitProducerIdResponse, check=_given
            )
            self._identity = _ProducerIdentity(reply.producer_id, reply.producer_epoch)
        return self._identity


def _given(reply: InitProducerIdResponse) -> None:
    check(reply.error_code, "get a producer id")


def _halves(piece: _Piece) -> list[_Piece]:
    middle = len(piece.records) // 2
    return [
        _Piece(list(islice(piece.indexes, start, stop)), list(islice(piece.records, start, stop)))
        for start, stop in ((0, middle), (middle, None))
    ]
