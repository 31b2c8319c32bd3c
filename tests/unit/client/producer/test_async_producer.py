"""The asyncio shell against scripted brokers: what is asked again, of whom, and what callers are told."""

import asyncio
from itertools import count

import pytest
from tests.unit.client.producer.stage import brokers, quick, reply, sent, sequences
from tests.unit.client.scripted import Answer, Hangup, Silence, in_turn, on_loop

from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.client.producer import (
    AsyncProducer,
    BufferFullError,
    DeliveryTimeoutError,
    ProducerClosedError,
    RecordMetadata,
    RecordTooLargeError,
)
from kohort.client.producer.sender import Sender
from kohort.model.errors import ErrorCode, KohortError
from kohort.records.batch import read_header, read_records
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)


@on_loop
async def test_a_record_comes_back_with_its_place() -> None:
    scripted = brokers()
    async with scripted.client() as cluster, quick(cluster) as producer:
        where = await producer.send_and_wait("orders", b"v", b"k", timestamp_ms=1_000, headers={"h": b"1"})

    assert where == RecordMetadata("orders", 0, 40, 1_000)  # type: ignore[arg-type] # plain values are equal
    (batch,) = sent(scripted)
    assert read_records(batch)[0][1:] == (1_000, b"k", b"v", [("h", b"1")])
    assert read_header(batch)[9:12] == (7, 0, 0)


@on_loop
async def test_records_of_one_turn_travel_in_one_batch_and_count_on_from_its_offset() -> None:
    scripted = brokers()
    async with scripted.client() as cluster, quick(cluster) as producer:
        futures = [await producer.send("orders", b"v") for _ in range(3)]
        await producer.flush()

    assert [future.result().offset for future in futures] == [40, 41, 42]
    assert len(sent(scripted)) == 1


@on_loop
async def test_the_broker_s_own_time_replaces_the_timestamp_where_the_topic_wants_that() -> None:
    scripted = brokers()
    scripted.on(ProduceRequest, reply(append_time=77))
    async with scripted.client() as cluster, quick(cluster) as producer:
        assert (await producer.send_and_wait("orders", b"v", timestamp_ms=5)).timestamp == 77


@on_loop
async def test_a_batch_whose_reply_was_lost_is_sent_again_with_the_same_bytes() -> None:
    scripted = brokers()
    scripted.on(ProduceRequest, in_turn(Hangup(), reply(base_offset=3)))
    async with scripted.client() as cluster, quick(cluster) as producer:
        where = await producer.send_and_wait("orders", b"v")

    first, second = sent(scripted)
    assert first == second
    assert where.offset == 3


@on_loop
async def test_a_new_leader_is_found_after_the_old_one_refused() -> None:
    scripted = brokers(2, orders=[1])

    def moved(request: ProduceRequest) -> ProduceResponse:
        scripted.topics["orders"] = [2]
        is_leader = scripted.asked(ProduceRequest)[-1].node_id == 2
        return reply(ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER)(request)

    scripted.on(ProduceRequest, moved)
    async with scripted.client() as cluster, quick(cluster) as producer:
        await producer.send_and_wait("orders", b"v")

    first, *again, last = (one.node_id for one in scripted.asked(ProduceRequest))
    assert (first, last) == (1, 2)
    assert set(again) <= {1}  # a retry may leave before the metadata has come


@on_loop
async def test_a_missing_number_starts_the_next_epoch() -> None:
    scripted = brokers()
    scripted.on(ProduceRequest, in_turn(reply(), reply(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), reply()))
    async with scripted.client() as cluster, quick(cluster) as producer:
        await producer.send_and_wait("orders", b"1")
        await producer.send_and_wait("orders", b"2")

    assert sequences(scripted) == [(0, 0), (0, 1), (1, 0)]


@on_loop
async def test_a_fenced_producer_fails_the_record_and_goes_on_under_another_id() -> None:
    scripted = brokers()
    ids = iter((7, 8))
    scripted.on(InitProducerIdRequest, lambda _request: InitProducerIdResponse(producer_id=next(ids)))
    scripted.on(ProduceRequest, in_turn(reply(ErrorCode.INVALID_PRODUCER_EPOCH), reply()))
    async with scripted.client() as cluster, quick(cluster) as producer:
        with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
            await producer.send_and_wait("orders", b"1")
        await producer.send_and_wait("orders", b"2")

    assert [read_header(batch).producer_id for batch in sent(scripted)] == [7, 8]


@on_loop
async def test_a_batch_the_broker_finds_too_large_is_halved_until_it_fits() -> None:
    scripted = brokers()

    def at_most_two(request: ProduceRequest) -> ProduceResponse:
        batch = bytes(request.topic_data[0].partition_data[0].records or b"")
        header = read_header(batch)
        code = ErrorCode.MESSAGE_TOO_LARGE if header.records_count > 2 else 0
        return reply(code, base_offset=header.base_sequence)(request)

    scripted.on(ProduceRequest, at_most_two)
    async with scripted.client() as cluster, quick(cluster) as producer:
        futures = [await producer.send("orders", b"%d" % number) for number in range(5)]
        await producer.flush()

    assert [future.result().offset for future in futures] == [0, 1, 2, 3, 4]


@on_loop
async def test_one_record_that_is_too_large_for_the_broker_is_refused_with_the_setting_to_raise() -> None:
    scripted = brokers()
    scripted.on(ProduceRequest, reply(ErrorCode.MESSAGE_TOO_LARGE))
    async with scripted.client() as cluster, quick(cluster) as producer:
        with pytest.raises(BrokerError, match=r"raise max\.message\.bytes"):
            await producer.send_and_wait("orders", b"v")


@on_loop
async def test_a_record_larger_than_a_request_is_refused_before_it_is_sent() -> None:
    scripted = brokers()
    async with (
        scripted.client() as cluster,
        quick(cluster, max_request_size=100) as producer,
    ):
        with pytest.raises(RecordTooLargeError, match="max_request_size"):
            await producer.send("orders", b"v" * 100)

    assert sent(scripted) == []


@on_loop
async def test_a_record_nobody_acknowledges_in_time_fails_with_the_reason() -> None:
    scripted = brokers()
    scripted.on(ProduceRequest, reply(ErrorCode.NOT_ENOUGH_REPLICAS))
    async with (
        scripted.client() as cluster,
        quick(cluster, request_timeout_ms=100, delivery_timeout_ms=100) as producer,
    ):
        with pytest.raises(
            DeliveryTimeoutError, match=r"orders-0 .*NOT_ENOUGH_REPLICAS.*delivery_timeout_ms"
        ):
            await producer.send_and_wait("orders", b"v")


@on_loop
async def test_a_full_buffer_holds_the_sender_back_until_there_is_room() -> None:
    scripted = brokers()
    async with (
        scripted.client() as cluster,
        AsyncProducer.on(cluster, max_buffered_bytes=300, linger_ms=60_000) as producer,
    ):
        for _ in range(5):
            await producer.send("orders", b"v" * 150)  # two do not fit: each makes the one before it leave

    assert len(sent(scripted)) == 5


@on_loop
async def test_a_buffer_that_stays_full_is_an_error_that_names_its_settings() -> None:
    scripted = brokers()
    scripted.on(ProduceRequest, lambda _request: Silence())
    producer = AsyncProducer(max_buffered_bytes=300, linger_ms=0, max_block_ms=1)
    async with scripted.client() as cluster:
        producer._given = cluster
        await producer.start()
        waiting = await producer.send("orders", b"v" * 250)
        with pytest.raises(BufferFullError, match=r"max_buffered_bytes, max_block_ms"):
            await producer.send("orders", b"v" * 250)
        await producer.close(timeout_ms=0)

    with pytest.raises(ProducerClosedError, match="give close"):
        await waiting


@on_loop
async def test_with_acks_0_nobody_waits_for_an_answer_and_the_offset_is_unknown() -> None:
    scripted = brokers()
    scripted.on(ProduceRequest, lambda _request: Silence())
    async with scripted.client() as cluster, quick(cluster, acks=0) as producer:
        where = await producer.send_and_wait("orders", b"v")
        await cluster.refresh()  # the connection still knows which reply is whose

    assert where.offset == -1
    assert len(sent(scripted)) == 1
    assert scripted.asked(InitProducerIdRequest) == []


@on_loop
async def test_a_topic_that_does_not_exist_is_an_error_once_max_block_ms_is_over() -> None:
    scripted = brokers()
    async with scripted.client() as cluster, AsyncProducer.on(cluster, max_block_ms=0) as producer:
        with pytest.raises(UnknownTopicError, match="bills"):
            await producer.send("bills", b"v")

    assert any(
        isinstance(one.request, MetadataRequest) and one.request.allow_auto_topic_creation
        for one in scripted.asked(MetadataRequest)
    )


@on_loop
async def test_a_topic_the_broker_creates_on_demand_is_waited_for() -> None:
    scripted = brokers()
    metadata = scripted.scripts["MetadataRequest"]

    def creating(request: MetadataRequest) -> Answer:
        answer = metadata(request)
        if request.topics and request.allow_auto_topic_creation:
            scripted.topics["bills"] = [1]
        return answer

    scripted.on(MetadataRequest, creating)
    async with scripted.client() as cluster, quick(cluster) as producer:
        assert (await producer.send_and_wait("bills", b"v")).topic == "bills"


@on_loop
async def test_a_partition_that_does_not_exist_is_an_error() -> None:
    scripted = brokers(orders=[1, 1])
    async with scripted.client() as cluster, quick(cluster) as producer:
        with pytest.raises(UnknownTopicError, match="partitions 0 to 1"):
            await producer.send("orders", b"v", partition=2)


@on_loop
async def test_keys_go_where_java_sends_them_unless_a_partitioner_says_otherwise() -> None:
    scripted = brokers(orders=[1] * 10)
    async with scripted.client() as cluster:
        async with quick(cluster) as producer:
            assert (await producer.send_and_wait("orders", b"v", b"foobar")).partition == 6
        async with quick(cluster, partitioner=lambda _t, _k, count: count - 1) as producer:
            assert (await producer.send_and_wait("orders", b"v", b"foobar")).partition == 9
        async with quick(cluster, partitioner=lambda _t, _k, count: count) as producer:
            with pytest.raises(UnknownTopicError, match="the partitioner chose 10"):
                await producer.send("orders", b"v", b"foobar")


@on_loop
async def test_a_broker_that_gives_no_producer_id_fails_the_record_with_the_way_out() -> None:
    scripted = brokers()
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    scripted.on(InitProducerIdRequest, lambda _request: InitProducerIdResponse(error_code=code))
    async with scripted.client() as cluster, quick(cluster) as producer:
        with pytest.raises(BrokerError, match="enable_idempotence=False"):
            await producer.send_and_wait("orders", b"v")


@on_loop
async def test_a_producer_that_is_not_running_says_so() -> None:
    producer = AsyncProducer()

    with pytest.raises(ProducerClosedError, match="not running"):
        await producer.send("orders", b"v")
    await producer.close()
    assert "closed" in repr(producer)


@on_loop
async def test_only_so_many_requests_are_in_flight_on_a_connection() -> None:
    scripted = brokers(orders=[1] * 4)
    two = asyncio.Event()

    def say_nothing(_request: ProduceRequest) -> Silence:
        if len(sent(scripted)) == 2:
            two.set()
        return Silence()

    scripted.on(ProduceRequest, say_nothing)
    async with scripted.client() as cluster:
        producer = quick(cluster, max_in_flight_requests_per_connection=2, max_request_size=200)
        await producer.start()
        futures = [await producer.send("orders", b"v" * 90, partition=number) for number in range(4)]
        await two.wait()
        for _ in range(20):  # turns of the loop, in which a third one could leave
            await asyncio.sleep(0)
        await producer.close(timeout_ms=0)

    assert len(sent(scripted)) == 2
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert all(isinstance(result, ProducerClosedError) for result in results)


@on_loop
async def test_a_timestamp_or_header_no_record_can_have_is_refused_before_it_is_sent() -> None:
    scripted = brokers()
    async with scripted.client() as cluster, quick(cluster) as producer:
        with pytest.raises(KohortError, match="-1 is not a timestamp"):
            await producer.send("orders", b"v", timestamp_ms=-1)
        with pytest.raises(KohortError, match="is not a header"):
            await producer.send("orders", b"v", headers={"\ud800": b""})

    assert sent(scripted) == []


@on_loop
async def test_a_throttled_producer_waits_and_goes_on() -> None:
    scripted = brokers()

    def throttled(request: ProduceRequest) -> ProduceResponse:
        response = reply()(request)
        response.throttle_time_ms = 1
        return response

    scripted.on(ProduceRequest, throttled)
    async with scripted.client() as cluster, quick(cluster) as producer:
        for _ in range(3):
            await producer.send_and_wait("orders", b"v")

    assert len(sent(scripted)) == 3


@on_loop
async def test_a_break_that_ends_while_the_sender_looks_around_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(Sender, "now", lambda _self: next(ticks))  # a millisecond passes with every look
    scripted = brokers()
    breaks = count(1)

    def throttled(request: ProduceRequest) -> ProduceResponse:
        response = reply()(request)
        response.throttle_time_ms = next(breaks)
        return response

    scripted.on(ProduceRequest, throttled)
    async with scripted.client() as cluster, quick(cluster) as producer:
        for _ in range(10):
            await asyncio.wait_for(producer.send_and_wait("orders", b"v"), 60)

    assert len(sent(scripted)) == 10


@on_loop
async def test_a_bug_fails_what_waits_instead_of_letting_it_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = brokers()
    async with scripted.client() as cluster, quick(cluster) as producer:
        monkeypatch.setattr("kohort.client.producer.sender.pack", lambda *_arguments: 1 / 0)
        with pytest.raises(KohortError, match="broke down"):
            await producer.send_and_wait("orders", b"v")
        with pytest.raises(ProducerClosedError, match="ZeroDivisionError"):
            await producer.send("orders", b"v")
