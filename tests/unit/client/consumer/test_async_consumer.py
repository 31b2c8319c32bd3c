"""The consumer on the caller's loop, on a broker that errs on demand."""

import asyncio

import pytest
from tests.unit.client.consumer.stage import P0, Stage, joined, on_stage, partitions_fail, read, spoiled

from kohort.client.errors import BrokerError, CallbackFailedError, ConcurrentUseError
from kohort.client.fetching.chunk import BadRecordError, NoOffsetForPartitionError
from kohort.client.subscription import OffsetAndMetadata, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.topics import TopicPartition
from kohort.testing.intercept import answer, cut_off, watch
from kohort.wire.messages.fetch import FetchResponse
from kohort.wire.messages.list_offsets import ListOffsetsResponse


@on_stage
async def test_an_evicted_fetch_session_is_started_over_and_nothing_is_lost(stage: Stage) -> None:
    fetches = stage.broker.intercept(watch, api="Fetch")
    async with stage.reader() as consumer:
        await read(consumer, 3)
        await consumer.poll(30)
        assert fetches.seen[-1].request.session_epoch > 0  # type: ignore[attr-defined]  # a FetchRequest
        gone = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        stage.broker.intercept(answer(gone), api="Fetch", times=1)
        await stage.write(b"d")
        assert [one.value for one in await read(consumer, 1)] == [b"d"]


@on_stage
async def test_passing_errors_of_fetches_pass(stage: Stage) -> None:
    for code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ):
        stage.broker.intercept(spoiled(partitions_fail(code)), api="Fetch", times=1)
        async with stage.reader() as consumer:
            assert [one.value for one in await read(consumer, 3)] == [b"a", b"b", b"c"]
    stage.broker.intercept(cut_off, api="Fetch", times=2)
    async with stage.reader() as consumer:
        assert len(await read(consumer, 3)) == 3


@on_stage
async def test_a_refusal_to_read_is_raised(stage: Stage) -> None:
    refuse = spoiled(partitions_fail(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    stage.broker.intercept(refuse, api="Fetch", times=1)
    async with stage.reader() as consumer:
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            await read(consumer, 3)
        assert len(await read(consumer, 3)) == 3


@on_stage
async def test_a_lookup_of_the_beginning_is_repeated(stage: Stage) -> None:
    def fail(response: ListOffsetsResponse) -> None:
        response.topics[0].partitions[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER

    lookups = stage.broker.intercept(spoiled(fail), api="ListOffsets", times=2)
    async with stage.reader() as consumer:
        assert len(await read(consumer, 3)) == 3
    assert len(lookups.seen) == 2


@on_stage
async def test_a_damaged_batch_is_reported_until_the_consumer_seeks(stage: Stage) -> None:
    def damage(response: FetchResponse) -> None:
        for topic in response.responses:
            for one in topic.partitions:
                parts = one.records or b""
                blob = bytearray(parts if isinstance(parts, bytes | memoryview) else b"".join(parts))
                if blob:
                    blob[-1] ^= 1
                    one.records = bytes(blob)

    stage.broker.intercept(spoiled(damage), api="Fetch")
    async with stage.reader() as consumer:
        for _ in range(2):
            with pytest.raises(BadRecordError, match="checksum"):
                await read(consumer, 3)
        stage.broker.stop_intercepting()
        consumer.seek(P0, 1)
        assert [one.offset for one in await read(consumer, 2)] == [1, 2]


@on_stage
async def test_without_a_policy_and_a_commit_the_application_must_seek(stage: Stage) -> None:
    async with stage.reader(auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.poll(100)
        consumer.seek(P0, 2)
        assert [one.value for one in await read(consumer, 1)] == [b"c"]


@on_stage
async def test_what_the_last_poll_returned_is_not_committed_before_the_next_or_the_end(stage: Stage) -> None:
    async with stage.reader(group_id="g", auto_commit_interval_ms=0) as consumer:
        await read(consumer, 3)
        (before,) = (await consumer.committed(P0)).values()
        assert before is None or before.offset == 0
    async with stage.reader(group_id="g") as consumer:
        found = (await consumer.committed(P0))[TopicPartition(*P0)]  # type: ignore[arg-type]  # plain values
        assert found is not None
        assert found.offset == 3


@on_stage
async def test_a_consumer_without_a_group_asks_no_coordinator(stage: Stage) -> None:
    lookups = stage.broker.intercept(watch, api="FindCoordinator")
    async with stage.reader() as consumer:
        await read(consumer, 3)
    assert lookups.seen == []


@pytest.mark.slow
@on_stage
async def test_polls_without_any_time_complete_a_join(stage: Stage) -> None:
    async with stage.reader("t", group_id="g") as consumer:
        for _ in range(100_000):
            await consumer.poll(0)
            if consumer.assignment():
                break
        assert consumer.assignment() == {P0}


@on_stage
async def test_interceptors_see_records_and_commits_and_may_fail(stage: Stage) -> None:
    class Counting:
        def __init__(self) -> None:
            self.records = 0
            self.commits: list[object] = []

        def on_consume(self, records: dict[object, list[object]]) -> None:
            self.records += sum(map(len, records.values()))

        def on_commit(self, offsets: object) -> None:
            self.commits.append(offsets)
            raise ValueError("nobody hears this")

    counting = Counting()
    async with stage.reader(group_id="g", enable_auto_commit=False, interceptors=[counting]) as consumer:
        await read(consumer, 3)
        await consumer.commit({P0: 2})
    assert counting.records == 3
    assert counting.commits == [{P0: OffsetAndMetadata(2)}]


@on_stage
async def test_listeners_may_be_coroutines_and_what_they_raise_comes_out_of_poll(stage: Stage) -> None:
    class Failing:
        def __init__(self) -> None:
            self.heard: list[str] = []

        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            await asyncio.sleep(0)
            self.heard.append(f"assigned {len(partitions)}")
            if partitions:
                raise ValueError("no")

        async def on_partitions_revoked(self, partitions: Partitions) -> None:
            self.heard.append(f"revoked {len(partitions)}")

    listener = Failing()
    async with stage.reader("t", group_id="g") as consumer:
        consumer.subscribe(["t"], listener=listener)
        with pytest.raises(CallbackFailedError, match="no"):
            await joined(consumer)
        assert consumer.assignment() == {P0}
        assert len(await read(consumer, 3)) == 3
    assert listener.heard[0] == "assigned 1"
    assert listener.heard[-1] == "revoked 1"


@on_stage
async def test_a_second_task_is_refused(stage: Stage) -> None:
    async with stage.reader() as consumer:
        await read(consumer, 3)
        first = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentUseError):
            await consumer.poll()
        with pytest.raises(ConcurrentUseError):
            await consumer.close()
        await stage.write(b"d")
        assert [one.value for one in (await first)[TopicPartition(*P0)]] == [b"d"]  # type: ignore[arg-type]  # plain values


@on_stage
async def test_the_admin_client_of_a_consumer_leaves_its_connections_open(stage: Stage) -> None:
    async with stage.reader() as consumer:
        async with consumer.admin() as admin:
            assert [topic.name for topic in await admin.list_topics()] == ["t"]
        assert [one.value for one in await read(consumer, 3)] == [b"a", b"b", b"c"]
