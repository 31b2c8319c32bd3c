"""What a consumer survives: connections that break and answers that refuse, for a while."""

from collections.abc import Awaitable
from typing import cast

import pytest
from tests.unit.client.consumer.stage import P0, TURNS, Stage, on_stage, read, spoiled

from kohort.broker.context import Response, Result
from kohort.client.cluster import ClusterClient, CoordinatorOf
from kohort.client.consumer import AsyncConsumer
from kohort.client.errors import BrokerError, PositionTimeoutError
from kohort.client.subscription import OffsetAndMetadata, Partitions
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.topics import TopicPartition
from kohort.testing.intercept import Proceed, Seen, cut_off, cut_off_after, watch
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.messages.list_offsets import ListOffsetsResponse
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse

REQUESTS = (
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "OffsetFetch",
    "ListOffsets",
    "Fetch",
    "Metadata",
    "OffsetCommit",
)


@pytest.mark.slow
@pytest.mark.parametrize("api", REQUESTS)
@on_stage
async def test_any_request_may_be_cut_off_before_and_after_it_is_done(stage: Stage, api: str) -> None:
    async with stage.reader("t", group_id="g") as consumer:
        before = stage.broker.intercept(cut_off, api=api, times=1)
        after = stage.broker.intercept(cut_off_after, api=api, times=1)
        assert [one.value for one in await read(consumer, 3)] == [b"a", b"b", b"c"]
        await consumer.commit()
    assert len(after.seen) == 1
    assert len(before.seen) <= 1  # metadata is not asked for twice if nothing is missing


@on_stage
async def test_a_validation_that_fails_is_repeated(stage: Stage) -> None:
    def refuse(response: OffsetForLeaderEpochResponse) -> None:
        response.topics[0].partitions[0].error_code = ErrorCode.FENCED_LEADER_EPOCH

    def say_nothing(response: OffsetForLeaderEpochResponse) -> None:
        response.topics.clear()

    asked = stage.broker.intercept(watch, api="OffsetForLeaderEpoch")
    for action in (cut_off, spoiled(refuse), spoiled(say_nothing)):
        stage.broker.intercept(action, api="OffsetForLeaderEpoch", times=1)
    async with stage.reader() as consumer:
        consumer.seek(P0, OffsetAndMetadata(1, leader_epoch=0))
        assert [one.offset for one in await read(consumer, 2)] == [1, 2]
    assert len(asked.seen) == 1


@on_stage
async def test_a_topic_one_may_not_see_is_raised(stage: Stage) -> None:
    def hide(response: MetadataResponse) -> None:
        for topic in response.topics:
            topic.error_code, topic.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []

    async with stage.reader() as consumer:
        stage.broker.intercept(spoiled(hide), api="Metadata", times=1)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            await read(consumer, 3)
        assert len(await read(consumer, 3)) == 3


@on_stage
async def test_a_position_that_cannot_be_found_in_time_is_a_timeout(stage: Stage) -> None:
    def refuse(response: ListOffsetsResponse) -> None:
        response.topics[0].partitions[0].error_code = ErrorCode.LEADER_NOT_AVAILABLE

    stage.broker.intercept(spoiled(refuse), api="ListOffsets")
    async with stage.reader() as consumer:
        with pytest.raises(PositionTimeoutError, match="t-0"):
            await consumer.position(P0, timeout_ms=20)
        with pytest.raises(KohortError, match="negative"):
            await consumer.offsets_for_times({P0: -1})


@on_stage
async def test_a_listener_may_commit_and_ask_while_it_loses_partitions(stage: Stage) -> None:
    class Committing:
        def __init__(self, consumer: AsyncConsumer) -> None:
            self.consumer = consumer
            self.positions: list[int] = []

        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            for each in partitions:
                self.consumer.seek(each, 1)

        async def on_partitions_revoked(self, partitions: Partitions) -> None:
            self.positions += [await self.consumer.position(each) for each in partitions]
            await self.consumer.commit()

    async with stage.reader("t", group_id="g", enable_auto_commit=False) as consumer:
        listener = Committing(consumer)
        consumer.subscribe(["t"], listener=listener)
        await read(consumer, 2)
        await consumer.unsubscribe()
        assert listener.positions == [3]
        assert consumer.assignment() == set()
        assert list((await consumer.committed(P0)).values()) == [OffsetAndMetadata(3, 0)]


@on_stage
async def test_what_a_partition_was_polled_for_is_void_after_a_seek(stage: Stage) -> None:
    async with stage.reader() as consumer:
        iterator = aiter(consumer)
        assert (await anext(iterator)).offset == 0
        assert await consumer.position(P0) == 1
        consumer.seek(P0, 2)
        assert (await anext(iterator)).offset == 2
        consumer.seek_to_beginning(P0)
        assert (await anext(iterator)).offset == 0
        polled = await consumer.poll()
        assert [one.offset for one in polled[TopicPartition(*P0)]] == [1, 2]  # type: ignore[arg-type]  # plain values


@on_stage
async def test_after_a_refusal_was_raised_the_question_where_to_begin_is_asked_again(stage: Stage) -> None:
    def refuse(response: OffsetFetchResponse) -> None:
        response.groups[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    # Without a pause the question is due again in the poll that raises the refusal.
    async with stage.reader("t", group_id="g", retry_backoff_ms=0) as consumer:
        rule = stage.broker.intercept(spoiled(refuse), api="OffsetFetch", times=1)
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
            await read(consumer, 3)
        assert len(rule.seen) == 1
        assert [one.value for one in await read(consumer, 3)] == [b"a", b"b", b"c"]


@pytest.mark.slow
@on_stage
async def test_a_member_that_was_removed_before_it_knows_its_offsets_joins_again_and_reads(
    stage: Stage,
) -> None:
    """The broker's heartbeat interval is five seconds: without a heartbeat at once, poll raises that long."""

    def remove(seen: Seen, proceed: Proceed) -> Result:
        async def act() -> Response:
            (group,) = cast(OffsetFetchRequest, seen.request).groups
            async with ClusterClient(stage.broker.bootstrap) as cluster:
                leaving = ConsumerGroupHeartbeatRequest(
                    group_id="g", member_id=group.member_id or "", member_epoch=-1
                )
                await cluster.ask(CoordinatorOf("g"), leaving, ConsumerGroupHeartbeatResponse)
            result = proceed()
            return await result if isinstance(result, Awaitable) else result

        return act()

    rule = stage.broker.intercept(remove, api="OffsetFetch", times=1)
    async with AsyncConsumer(
        "t",
        bootstrap_servers=stage.broker.bootstrap,
        group_id="g",
        group_protocol="consumer",
        auto_offset_reset="earliest",
    ) as consumer:
        refusals: list[KohortError] = []
        values: list[bytes | None] = []
        for _ in range(TURNS):
            try:
                values += [one.value for some in (await consumer.poll(20)).values() for one in some]
            except BrokerError as error:
                refusals.append(error)
            if values:
                break
        assert values == [b"a", b"b", b"c"]
        assert len(rule.seen) == 1
        assert len(refusals) <= 1
