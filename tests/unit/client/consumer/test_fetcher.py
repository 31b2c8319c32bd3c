"""Fetches on the wire: sessions that are ended, leaders that say who leads now."""

import asyncio
from typing import Unpack

import pytest
from tests.unit.client.consumer.stage import Stage, on_stage, read
from tests.unit.client.scripted import Hangup, ScriptedCluster, on_loop, topic_id_of

from kohort.client.consumer.engine import Engine, EngineInputs, start
from kohort.client.consumer.member import invoke_here
from kohort.client.consumer.settings import ConsumerOptions, ConsumerSettings
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.subscription import Position, Subscriptions
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.records.build import BatchFields, build_batch
from kohort.records.record import NewRecord
from kohort.testing.intercept import cut_off, swallow, watch
from kohort.wire.apis import ApiKey
from kohort.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kohort.wire.messages.list_offsets import ListOffsetsRequest
from kohort.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

T0 = TopicPartition(TopicName("t"), Partition(0))


def sessions(fetches: list[object]) -> list[tuple[int, int]]:
    return [(each.session_id, each.session_epoch) for each in fetches if isinstance(each, FetchRequest)]


@on_stage
async def test_closing_ends_the_fetch_session_even_while_a_fetch_waits(stage: Stage) -> None:
    fetches = stage.broker.intercept(watch, api="Fetch")
    async with stage.reader(fetch_max_wait_ms=30_000) as consumer:
        await read(consumer, 3)
    asked = sessions([each.request for each in fetches.seen])
    known = next(number for number, _ in asked if number)
    assert asked[-1] == (known, -1)
    assert asked[0] == (0, 0)


@pytest.mark.parametrize("action", [cut_off, swallow])
@on_stage
async def test_closing_does_not_depend_on_ending_the_session(stage: Stage, action: object) -> None:
    async with stage.reader() as consumer:
        await read(consumer, 3)
        refused = stage.broker.intercept(action, api="Fetch")  # type: ignore[arg-type]  # one of two actions
        await consumer.close(timeout_ms=50)
    assert refused.seen


@on_stage
async def test_without_a_session_there_is_none_to_end(stage: Stage) -> None:
    async with stage.reader():
        fetches = stage.broker.intercept(watch, api="Fetch")
    assert fetches.seen == []


class Moving:
    """Two brokers: the first led the partition once, the second does now, and nobody's metadata says so."""

    def __init__(self) -> None:
        self.brokers = ScriptedCluster(nodes=2, topics={"t": [1]})
        self.brokers.on(FetchRequest, self.answer)
        self.brokers.on(OffsetForLeaderEpochRequest, self.validate)

    def answer(self, request: FetchRequest) -> FetchResponse:
        (asked,) = self.brokers.asked(FetchRequest)[-1:]
        if asked.node_id == 1:
            return response(
                request,
                PartitionData(
                    error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=7),
                ),
                NodeEndpoint(node_id=2, host="host", port=9002),
            )
        return response(request, PartitionData(high_watermark=5, records=batch_at(4)))

    def validate(self, _request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        row = EpochEndOffset(partition=0, leader_epoch=3, end_offset=10)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[row])])


async def engine_of(brokers: ScriptedCluster, position: Position, **more: Unpack[ConsumerOptions]) -> Engine:
    """A reader of the partition, from there on."""
    settings = ConsumerSettings(**({"bootstrap_servers": "host:9001", "retry_backoff_ms": 10} | more))
    subscriptions = Subscriptions()
    subscriptions.assign([T0])
    subscriptions.state(T0).seek(position)
    return await start(settings, EngineInputs(subscriptions, (), invoke_here, brokers.dial))


def batch_at(offset: int) -> bytes:
    return build_batch([NewRecord(timestamp=0, key=None, value=b"a")], BatchFields(base_offset=offset))


def response(request: FetchRequest, one: PartitionData, *nodes: NodeEndpoint) -> FetchResponse:
    topics = [FetchableTopicResponse(topic_id=topic_id_of("t"), partitions=[one])] if request.topics else []
    return FetchResponse(responses=topics, session_id=0, node_endpoints=list(nodes))


async def polled(engine: Engine) -> list[ConsumerRecord]:
    while not (records := await engine.poll(100, 10)):
        pass
    return records[T0]


@on_loop
async def test_a_leader_that_moved_is_followed_at_once_where_the_old_one_says() -> None:
    moving = Moving()
    engine = await engine_of(moving.brokers, Position(4), retry_backoff_ms=60_000)
    records = await asyncio.wait_for(polled(engine), 50)  # the backoff alone would take a minute
    assert [one.offset for one in records] == [4]
    assert [one.node_id for one in moving.brokers.asked(FetchRequest)][:2] == [1, 2]
    asked = moving.brokers.asked(FetchRequest)[1].request
    assert isinstance(asked, FetchRequest)
    assert asked.topics[0].partitions[0].current_leader_epoch == 7
    assert moving.brokers.asked(OffsetForLeaderEpochRequest) == []  # the position has no epoch to compare
    await engine.close(0)


@on_loop
async def test_the_leader_that_is_followed_must_confirm_a_position_with_an_epoch() -> None:
    moving = Moving()
    engine = await engine_of(moving.brokers, Position(4, 3, 1, 0))
    assert [one.offset for one in await asyncio.wait_for(polled(engine), 50)] == [4]
    (asked,) = moving.brokers.asked(OffsetForLeaderEpochRequest)
    assert asked.node_id == 2
    await engine.close(0)


@on_loop
async def test_a_follower_that_lacks_the_offset_sends_back_to_the_leader_without_a_reset() -> None:
    """T66."""
    brokers = ScriptedCluster(nodes=2, topics={"t": [1]})

    def answer(request: FetchRequest) -> FetchResponse:
        asked = brokers.asked(FetchRequest)
        if asked[-1].node_id == 2:
            return response(request, PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        if len(asked) == 1:
            return response(request, PartitionData(high_watermark=5, preferred_read_replica=2))
        return response(request, PartitionData(high_watermark=5, records=batch_at(4)))

    brokers.on(FetchRequest, answer)
    engine = await engine_of(brokers, Position(4), client_rack="b")
    assert [one.offset for one in await asyncio.wait_for(polled(engine), 50)] == [4]
    assert [one.node_id for one in brokers.asked(FetchRequest)][:3] == [1, 2, 1]
    assert brokers.asked(ListOffsetsRequest) == []
    await engine.close(0)


@on_loop
async def test_a_broker_that_cannot_validate_positions_is_not_asked_to() -> None:
    """T67."""
    brokers = ScriptedCluster(topics={"t": [1]})
    brokers.peers[1].served[ApiKey.OFFSET_FOR_LEADER_EPOCH] = Versions(2, 2)
    brokers.on(FetchRequest, lambda request: response(request, PartitionData(records=batch_at(4))))
    engine = await engine_of(brokers, Position(4, offset_epoch=3))
    assert [one.offset for one in await asyncio.wait_for(polled(engine), 50)] == [4]
    assert brokers.asked(OffsetForLeaderEpochRequest) == []
    await engine.close(0)


@on_loop
async def test_brokers_that_are_all_gone_are_not_asked_in_a_hurry() -> None:
    """T9: turns of the loop and connection attempts are paced by retry.backoff.ms."""
    brokers = ScriptedCluster(topics={"t": [1]})
    brokers.on(FetchRequest, lambda _: Hangup())
    engine = await engine_of(brokers, Position(4))
    turns = 0
    wait = engine.tasks.wait

    async def counted(millis: float) -> None:
        nonlocal turns
        turns += 1
        await wait(millis)

    engine.tasks.wait = counted  # type: ignore[method-assign]  # to count
    brokers.down.add(1)
    brokers.dialled.clear()
    assert await engine.poll(200, 10) == {}
    assert turns <= 60
    assert len(brokers.dialled) <= 60
    await engine.close(0)
