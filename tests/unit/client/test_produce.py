"""Writing records: where they go, how they are packed, what happens when a broker says no."""

import pytest
from tests.unit.client.scripted import Answer, Hangup, Script, ScriptedCluster, in_turn, on_loop, topic_id_of

from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.client.options import ClientOptions
from kohort.client.partitioner import partition_for_key
from kohort.client.produce import Outgoing, TopicWriter, WriteOptions
from kohort.model.errors import ErrorCode
from kohort.records.batch import BatchHeader, Record, check_crc, read_header, read_records
from kohort.records.compression import Codec
from kohort.wire.apis import ApiKey
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kohort.wire.schema import Versions


class Log:
    """Partitions that keep what they are sent, and can be told to refuse."""

    def __init__(self, brokers: ScriptedCluster, limit: int = 1 << 20) -> None:
        self.batches: dict[int, list[tuple[BatchHeader, list[Record]]]] = {}
        self.limit = limit
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
        if len(batch) > self.limit:
            return PartitionProduceResponse(
                index=number, error_code=ErrorCode.MESSAGE_TOO_LARGE, base_offset=-1
            )
        kept = self.batches.setdefault(number, [])
        base = sum(len(records) for _, records in kept)
        kept.append((header, read_records(batch)))
        return PartitionProduceResponse(index=number, base_offset=base, log_append_time_ms=self.append_time)

    def values(self, number: int) -> list[bytes | None]:
        return [record.value for _, records in self.batches.get(number, []) for record in records]


def refusing(code: ErrorCode, *, message: str = "", records: tuple[int, ...] = ()) -> Script:
    def script(request: ProduceRequest) -> Answer:
        (topic,) = request.topic_data
        refusals = [
            PartitionProduceResponse(
                index=one.index,
                error_code=code,
                error_message=message or None,
                record_errors=[BatchIndexAndErrorMessage(batch_index=index) for index in records],
            )
            for one in topic.partition_data
        ]
        answered = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=refusals
        )
        return ProduceResponse(responses=[answered])

    return script


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
async def test_keys_choose_the_partition_and_records_without_take_turns() -> None:
    brokers = ScriptedCluster(topics={"t": [1, 1, 1]})
    Log(brokers)
    async with brokers.client() as cluster:
        writer = TopicWriter(cluster, "t")
        keyed = await writer.write([Outgoing(b"v", key=b"key")])
        turns = [await writer.write(values("a", "b")) for _ in range(2)]
    assert keyed[0].partition == partition_for_key(b"key", 3)
    assert [{one.partition for one in turn} for turn in turns] == [{1}, {2}]


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


@pytest.mark.parametrize("codec", list(Codec))
@on_loop
async def test_batches_are_compressed_as_asked(codec: Codec) -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t", WriteOptions(codec=codec)).write(values("a" * 100))
    ((header, _),) = log.batches[0]
    assert header.codec == codec
    assert log.values(0) == [b"a" * 100]


@on_loop
async def test_batches_are_numbered_so_that_a_repeated_one_is_recognised() -> None:
    brokers = ScriptedCluster(topics={"t": [1, 1]})
    log = Log(brokers)
    async with brokers.client() as cluster:
        writer = TopicWriter(cluster, "t")
        for _ in range(2):
            await writer.write([Outgoing(b"x", partition=0), Outgoing(b"y", partition=0)])
        await writer.write([Outgoing(b"z", partition=1)])
    assert [header.base_sequence for header, _ in log.batches[0]] == [0, 2]
    assert [header.base_sequence for header, _ in log.batches[1]] == [0]
    assert {header.producer_id for header, _ in log.batches[0]} == {7}
    assert len(brokers.asked(InitProducerIdRequest)) == 1


@on_loop
async def test_a_broker_without_producer_ids_gets_batches_without() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    del brokers.peers[1].served[ApiKey.INIT_PRODUCER_ID]
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t").write(values("a"))
    ((header, _),) = log.batches[0]
    assert (header.producer_id, header.base_sequence) == (-1, -1)


@on_loop
async def test_a_lost_reply_is_followed_by_the_same_batch_with_the_same_numbers() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    brokers.on(ProduceRequest, in_turn(Hangup(), log.produce))
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t").write(values("a"))
    first, second = (one.request for one in brokers.asked(ProduceRequest))
    assert first == second


@on_loop
async def test_a_leader_that_moved_is_found_and_the_batch_sent_there() -> None:
    brokers = ScriptedCluster(nodes=2, topics={"t": [1]})
    log = Log(brokers)

    def moved(request: ProduceRequest) -> Answer:
        brokers.topics["t"] = [2]
        return refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)(request)

    brokers.on(ProduceRequest, in_turn(moved, log.produce))
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t").write(values("a"))
    assert [one.node_id for one in brokers.asked(ProduceRequest)] == [1, 2]


@on_loop
async def test_batches_are_closed_by_size_and_by_number() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t", WriteOptions(batch_records=3)).write(values(*"abcdefg"))
        await TopicWriter(cluster, "t", WriteOptions(batch_bytes=100)).write(values("x" * 60, "y" * 60))
    assert [len(records) for _, records in log.batches[0]] == [3, 3, 1, 1, 1]


@on_loop
async def test_a_batch_that_is_too_large_is_halved_until_it_fits_in_order() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers, limit=200)
    texts = [f"{number:02}" * 20 for number in range(9)]
    async with brokers.client() as cluster:
        written = await TopicWriter(cluster, "t").write(values(*texts))
    assert log.values(0) == [text.encode() for text in texts]
    assert [one.offset for one in written] == list(range(9))
    sequences = [header.base_sequence for header, _ in log.batches[0]]
    assert sequences == sorted(sequences)


@on_loop
async def test_a_single_record_that_is_too_large_is_refused_with_the_setting_to_change() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    Log(brokers, limit=100)
    async with brokers.client() as cluster:
        with pytest.raises(BrokerError, match="write to t-0: MESSAGE_TOO_LARGE") as caught:
            await TopicWriter(cluster, "t").write(values("x" * 200))
    assert "max.message.bytes" in caught.value.hint


@on_loop
async def test_after_a_refusal_numbering_starts_afresh() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    log = Log(brokers)
    brokers.on(
        ProduceRequest,
        in_turn(refusing(ErrorCode.INVALID_RECORD, records=(1,), message="no key"), log.produce),
    )
    async with brokers.client() as cluster:
        writer = TopicWriter(cluster, "t")
        with pytest.raises(BrokerError, match="record 1 of the batch: no key"):
            await writer.write(values("a", "b"))
        await writer.write(values("c"))
    assert len(brokers.asked(InitProducerIdRequest)) == 2


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


@pytest.mark.parametrize(("highest", "name", "topic_id"), [(12, "t", bytes(16)), (13, "", topic_id_of("t"))])
@on_loop
async def test_topics_are_named_by_id_where_the_broker_can(highest: int, name: str, topic_id: bytes) -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    Log(brokers)
    brokers.peers[1].served[ApiKey.PRODUCE] = Versions(0, highest)
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t").write(values("a"))
    request = brokers.asked(ProduceRequest)[0].request
    assert isinstance(request, ProduceRequest)
    assert (request.topic_data[0].name, request.topic_data[0].topic_id) == (name, topic_id)
    assert request.acks == -1


@on_loop
async def test_a_topic_without_an_id_is_named_whatever_the_broker_can() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    Log(brokers)
    brokers.peers[1].served[ApiKey.METADATA] = Versions(0, 9)
    async with brokers.client() as cluster:
        await TopicWriter(cluster, "t").write(values("a"))
    assert brokers.asked(ProduceRequest)[0].header.api_version == 12


@on_loop
async def test_writing_nothing_sends_nothing() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    async with brokers.client() as cluster:
        assert await TopicWriter(cluster, "t").write([]) == []
    assert not brokers.asked(ProduceRequest)
