"""Writing records to one topic: what comes back, and what is refused. How they travel is the producer's."""

import pytest
from tests.unit.client.scripted import Answer, ScriptedCluster, in_turn, on_loop

from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.client.producer.topic_writer import Outgoing, TopicWriter
from kohort.client.settings import ClientOptions, SettingError
from kohort.model.errors import ErrorCode
from kohort.records.batch import BatchHeader, Record, check_crc, read_header, read_records
from kohort.records.compression import Codec
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


class Log:
    """Partitions that keep what they are sent, and can be told to refuse."""

    def __init__(self, brokers: ScriptedCluster) -> None:
        self.batches: dict[int, list[tuple[BatchHeader, list[Record]]]] = {}
        self.append_time = -1
        brokers.on(ProduceRequest, self.produce)
        brokers.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=1))

    def produce(self, request: ProduceRequest) -> ProduceResponse:
        (topic,) = request.topic_data
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        self._append(one.index, bytes(one.records or b"")) for one in topic.partition_data
                    ],
                )
            ]
        )

    def _append(self, number: int, batch: bytes) -> PartitionProduceResponse:
        header = read_header(batch)
        check_crc(batch, 0, header)
        kept = self.batches.setdefault(number, [])
        base = sum(len(records) for _, records in kept)
        kept.append((header, read_records(batch)))
        return PartitionProduceResponse(index=number, base_offset=base, log_append_time_ms=self.append_time)

    def values(self, number: int) -> list[bytes | None]:
        return [record.value for _, records in self.batches.get(number, []) for record in records]


def refusing(request: ProduceRequest) -> Answer:
    (topic,) = request.topic_data
    refusals = [
        PartitionProduceResponse(
            index=one.index, error_code=ErrorCode.INVALID_RECORD, error_message="no key", base_offset=-1
        )
        for one in topic.partition_data
    ]
    answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=refusals)
    return ProduceResponse(responses=[answered])


def values(*texts: str) -> list[Outgoing]:
    return [Outgoing(text.encode()) for text in texts]


@on_loop
async def test_each_record_comes_back_with_its_place_in_the_order_given() -> None:
    brokers = ScriptedCluster(nodes=2, topics={"t": [1, 2]})
    log = Log(brokers)
    records = [Outgoing(b"%d" % number, partition=number % 2, timestamp=number) for number in range(4)]
    async with brokers.client() as cluster:
        written = await TopicWriter(cluster, "t").write(records)
    assert written == [(0, 0, 0), (1, 0, 1), (0, 1, 2), (1, 1, 3)]
    assert log.values(1) == [b"1", b"3"]
    assert [one.node_id for one in brokers.asked(ProduceRequest)] == [1, 2]


@on_loop
async def test_what_is_written_keeps_key_headers_and_time() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t").write([Outgoing(None, b"k", [("h", b"x")], timestamp=5)])
    ((_, (record,)),) = log.batches[0]
    assert record == Record(0, 5, b"k", None, [("h", b"x")])


@on_loop
async def test_the_brokers_time_is_reported_where_it_counts() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    Log(brokers).append_time = 123
    async with brokers.client() as cluster:
        written = await TopicWriter(cluster, "t").write(values("a"))
    assert written[0].timestamp == 123


@on_loop
async def test_settings_are_those_of_a_producer() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t", compression_type="zstd").write(values("a" * 100))
        with pytest.raises(SettingError, match="acks cannot be 7"):
            TopicWriter(cluster, "t", acks=7)  # type: ignore[arg-type]  # that is the point
    ((header, _),) = log.batches[0]
    assert header.codec == Codec.ZSTD


@on_loop
async def test_in_a_block_all_records_come_from_one_producer() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    async with brokers.client() as cluster:
        async with TopicWriter(cluster, "t") as writer:
            await writer.write(values("a", "b"))
            sent = await writer.send(Outgoing(b"c"))
            await writer.flush()
            assert sent.result().offset == 2
        assert [header.base_sequence for header, _ in log.batches[0]] == [0, 2]
        await writer.write(values("d"))  # after the block it has a producer of its own again
    assert len(brokers.asked(InitProducerIdRequest)) == 2
    assert log.values(0) == [b"a", b"b", b"c", b"d"]


@on_loop
async def test_a_refusal_is_raised_and_the_writer_can_be_used_again() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    brokers.on(ProduceRequest, in_turn(refusing, log.produce))
    async with brokers.client() as cluster:
        writer = TopicWriter(cluster, "t")
        with pytest.raises(BrokerError, match="no key"):
            await writer.write(values("a", "b"))
        (written,) = await writer.write(values("c"))
    assert written.offset == 0


@on_loop
async def test_a_partition_that_does_not_exist_is_refused_before_anything_is_sent() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    Log(brokers)
    async with brokers.client() as cluster:
        with pytest.raises(UnknownTopicError, match="no partition 5: it has the partitions 0 to 0"):
            await TopicWriter(cluster, "t").write([Outgoing(b"x", partition=5)])
    assert not brokers.asked(ProduceRequest)


@on_loop
async def test_a_topic_the_broker_creates_on_demand_is_waited_for() -> None:
    brokers = ScriptedCluster()
    Log(brokers)
    metadata = brokers.scripts["MetadataRequest"]

    def creating(request: MetadataRequest) -> Answer:
        answer = metadata(request)
        if request.topics and request.allow_auto_topic_creation:
            brokers.topics["t"] = [1]
        return answer

    brokers.on(MetadataRequest, creating)
    async with brokers.client() as cluster:
        written = await TopicWriter(cluster, "t").write(values("a"))
    assert written[0].offset == 0


@on_loop
async def test_a_topic_that_nobody_creates_is_an_error() -> None:
    brokers = ScriptedCluster()
    Log(brokers)
    hasty = ClientOptions(api_timeout_ms=5, retry_backoff_ms=2)
    async with brokers.client(hasty) as cluster:
        with pytest.raises(UnknownTopicError):
            await TopicWriter(cluster, "t").write(values("a"))


@on_loop
async def test_writing_nothing_sends_nothing() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    async with brokers.client() as cluster:
        assert await TopicWriter(cluster, "t").write([]) == []
    assert not brokers.asked(ProduceRequest)
