"""Where a consumer begins, and how it gets past what cannot be read: the scenarios of offsets and fetches."""

import asyncio
from collections.abc import Awaitable

import pytest
from tests.unit.client.consumer.stage import P0, Stage, on_stage, read, spoiled
from tests.unit.records.markers import end_marker

from kohort.broker.context import Response, Result
from kohort.client.admin.topics import delete_topics
from kohort.client.cluster import ClusterClient
from kohort.client.consumer import AsyncConsumer
from kohort.client.fetching.chunk import BadRecordError, LogTruncationError, NoOffsetForPartitionError
from kohort.client.subscription import OffsetAndMetadata
from kohort.records.build import BatchFields, build_batch
from kohort.records.control import ControlType
from kohort.records.record import NewRecord
from kohort.testing.intercept import Action, Proceed, Seen, watch
from kohort.wire.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse
from kohort.wire.messages.list_offsets import ListOffsetsRequest
from kohort.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse


def batch(base: int, *values: bytes, producer: int = -1) -> bytes:
    fields = BatchFields(base_offset=base, leader_epoch=0)
    if producer >= 0:
        fields = fields._replace(transactional=True, producer_id=producer, producer_epoch=0, base_sequence=0)
    return build_batch([NewRecord(0, None, value) for value in values], fields)


def marker(base: int, producer: int, kind: ControlType) -> bytes:
    fields = BatchFields(base_offset=base, leader_epoch=0, producer_id=producer, producer_epoch=0)
    return end_marker(kind, 0, fields)


def fetched(blob: bytes, *aborted: AbortedTransaction) -> Action:
    """A log that holds this instead."""

    def change(response: FetchResponse) -> None:
        for topic in response.responses:
            for one in topic.partitions:
                if one.records:
                    one.records, one.aborted_transactions = blob, list(aborted)

    return spoiled(change)


class Held:
    """An action that keeps requests waiting until it is told to let them go."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.may_go = asyncio.Event()

    def __call__(self, _seen: Seen, proceed: Proceed) -> Result:
        async def wait() -> Response:
            self.arrived.set()
            await self.may_go.wait()
            result = proceed()
            return await result if isinstance(result, Awaitable) else result

        return wait()


@on_stage
async def test_markers_alone_end_a_poll_early_and_empty_handed(stage: Stage) -> None:
    """T8."""
    rule = stage.broker.intercept(fetched(marker(0, 7, ControlType.COMMIT)), api="Fetch", times=1)
    async with stage.reader() as consumer:
        assert await consumer.poll(60_000) == {}
        assert await consumer.position(P0) == 1
        assert [one.value for one in await read(consumer, 2)] == [b"b", b"c"]
    assert len(rule.seen) == 1


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
@on_stage
async def test_a_committed_offset_goes_before_any_policy(stage: Stage, policy: str) -> None:
    """T62."""
    async with stage.reader("t", group_id="g", auto_offset_reset=policy) as consumer:
        async with stage.reader(group_id="g") as other:
            await other.commit({P0: 1})
        assert [one.offset for one in await read(consumer, 2)] == [1, 2]


@pytest.mark.parametrize(("policy", "first"), [("earliest", 0), ("latest", 3)])
@on_stage
async def test_without_a_commit_the_policy_says_where_to_begin(stage: Stage, policy: str, first: int) -> None:
    """T62."""
    async with stage.reader(group_id="g", auto_offset_reset=policy) as consumer:
        assert await consumer.position(P0) == first
        await stage.write(b"d")
        assert (await read(consumer, 4 - first))[0].offset == first


@on_stage
async def test_without_a_commit_and_a_policy_a_member_hears_of_it(stage: Stage) -> None:
    """T62."""
    async with stage.reader("t", group_id="g", auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetForPartitionError, match=r"t-0.*set auto_offset_reset"):
            await read(consumer, 1)


@on_stage
async def test_a_seek_wins_over_the_lookup_that_is_under_way(stage: Stage) -> None:
    """T64."""
    held = Held()
    stage.broker.intercept(held, api="ListOffsets", times=1)
    async with stage.reader() as consumer:
        while not held.arrived.is_set():
            await consumer.poll(5)
        consumer.seek(P0, 2)
        held.may_go.set()
        assert [one.offset for one in await read(consumer, 1)] == [2]


@on_stage
async def test_what_a_paused_partition_had_buffered_is_not_fetched_again(stage: Stage) -> None:
    """T65."""
    async with stage.reader(max_poll_records=1) as consumer:
        assert [one.offset for one in await read(consumer, 1)] == [0]
        consumer.pause(P0)
        fetches = stage.broker.intercept(watch, api="Fetch")
        assert await consumer.poll(10) == {}
        consumer.resume(P0)
        assert [one.offset for one in await read(consumer, 2)] == [1, 2]
        asked = [
            one.fetch_offset
            for seen in fetches.seen
            if isinstance(seen.request, FetchRequest)
            for topic in seen.request.topics
            for one in topic.partitions
        ]
    assert [offset for offset in asked if offset < 3] == []


def cut_at(end_offset: int) -> Action:
    def change(response: OffsetForLeaderEpochResponse) -> None:
        response.topics[0].partitions[0].end_offset = end_offset

    return spoiled(change)


@on_stage
async def test_a_truncated_log_is_followed_under_a_policy(stage: Stage) -> None:
    """T67: to where both logs agree, not to the end."""
    stage.broker.intercept(cut_at(1), api="OffsetForLeaderEpoch")
    async with stage.reader(auto_offset_reset="latest") as consumer:
        consumer.seek(P0, OffsetAndMetadata(3, leader_epoch=0))
        assert [one.offset for one in await read(consumer, 2)] == [1, 2]


@on_stage
async def test_a_truncated_log_without_a_policy_is_an_error_until_a_seek(stage: Stage) -> None:
    """T67."""
    stage.broker.intercept(cut_at(1), api="OffsetForLeaderEpoch")
    async with stage.reader(auto_offset_reset="none") as consumer:
        consumer.seek(P0, OffsetAndMetadata(3, leader_epoch=0))
        with pytest.raises(LogTruncationError, match=r"t-0 was truncated.*auto_offset_reset") as cut:
            await read(consumer, 1)
        assert list(cut.value.divergent.values()) == [1]
        consumer.seek(P0, 1)
        assert [one.offset for one in await read(consumer, 2)] == [1, 2]


@on_stage
async def test_a_topic_made_anew_is_read_by_its_new_id(stage: Stage) -> None:
    """T68."""
    fetches = stage.broker.intercept(watch, api="Fetch")
    async with stage.reader() as consumer:
        await read(consumer, 3)
        async with ClusterClient(stage.broker.bootstrap) as cluster:
            await delete_topics(cluster, ["t"])
        await stage.write(b"new")
        assert [(one.offset, one.value) for one in await read(consumer, 1)] == [(0, b"new")]
    ids = {
        topic.topic_id
        for seen in fetches.seen
        if isinstance(seen.request, FetchRequest)
        for topic in seen.request.topics
    }
    assert len(ids) == 2


@on_stage
async def test_read_committed_leaves_out_what_was_aborted_and_nothing_else(stage: Stage) -> None:
    """T69."""
    log = (
        batch(0, b"gone", producer=7)
        + marker(1, 7, ControlType.ABORT)
        + batch(2, b"kept", producer=7)
        + marker(3, 7, ControlType.COMMIT)
    )
    rule = fetched(log, AbortedTransaction(producer_id=7, first_offset=0))
    ends = stage.broker.intercept(watch, api="ListOffsets")
    stage.broker.intercept(rule, api="Fetch", times=1)
    async with stage.reader(isolation_level="read_committed") as consumer:
        assert [one.value for one in await read(consumer, 1)] == [b"kept"]
        assert await consumer.position(P0) == 4
        assert list((await consumer.end_offsets([P0])).values()) == [3]
    stage.broker.intercept(rule, api="Fetch", times=1)
    async with stage.reader() as consumer:
        assert [one.value for one in await read(consumer, 2)] == [b"gone", b"kept"]
    levels = [one.request.isolation_level for one in ends.seen if isinstance(one.request, ListOffsetsRequest)]
    assert levels == [1, 1, 0]


@on_stage
async def test_the_compacted_tail_of_a_batch_is_passed(stage: Stage) -> None:
    """T70."""
    blob = bytearray(batch(0, b"a"))
    blob[23:27] = (1).to_bytes(4, "big")  # last offset delta: offset 1 has been compacted away
    stage.broker.intercept(fetched(bytes(blob)), api="Fetch", times=1)
    async with stage.reader(check_crcs=False) as consumer:
        assert [one.offset for one in await read(consumer, 1)] == [0]
        assert await consumer.position(P0) == 2
        assert [one.offset for one in await read(consumer, 1)] == [2]


@on_stage
async def test_a_record_nobody_can_read_comes_after_those_before_it_until_a_seek(stage: Stage) -> None:
    """T71."""

    def picky(value: bytes) -> str:
        if value == b"b":
            raise ValueError("not b")
        return value.decode()

    async def next_values(consumer: AsyncConsumer) -> list[object]:
        return [one.value for portion in (await consumer.poll(1_000)).values() for one in portion]

    async with stage.reader(value_deserializer=picky) as consumer:
        assert [one.value for one in await read(consumer, 1)] == ["a"]
        for _ in range(3):
            with pytest.raises(BadRecordError, match=r"offset 1: .*not b.*seek to offset 2"):
                await next_values(consumer)
        assert await consumer.position(P0) == 1
        consumer.seek(P0, 2)
        assert await next_values(consumer) == ["c"]
