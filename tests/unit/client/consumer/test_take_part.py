"""A member that reads nothing: rebalances go on, nothing is fetched, commits are the application's."""

import pytest
from tests.unit.client.consumer.stage import P0, Stage, on_stage

from kohort.client.errors import NoGroupError
from kohort.client.subscription import SubscriptionError
from kohort.testing.intercept import watch


@pytest.mark.slow
@on_stage
async def test_a_member_settles_and_fetches_nothing(stage: Stage) -> None:
    fetched = stage.broker.intercept(watch, api="Fetch")
    asked = stage.broker.intercept(watch, api="OffsetFetch")
    async with stage.reader("t", group_id="g", enable_auto_commit=False) as consumer:
        assert await consumer.take_part(10_000)
        assert consumer.assignment() == {P0}
        assert consumer.group_metadata().generation_id == 1
        assert await consumer.take_part(0), "a group that has settled is seen at once"
        await consumer.commit({P0: 2})
        assert (await consumer.committed(P0))[P0].offset == 2  # type: ignore[union-attr,index]  # committed
    assert fetched.seen == []
    assert len(asked.seen) == 1, "only what the test asked"


@pytest.mark.slow
@on_stage
async def test_a_rebalance_is_answered_only_inside(stage: Stage) -> None:
    await stage.write_to("two", b"a")
    async with stage.reader("two", group_id="g", enable_auto_commit=False) as first:
        assert await first.take_part(10_000)
        async with stage.reader("two", group_id="g", enable_auto_commit=False) as second:
            assert not await second.take_part(300), "the first has not given anything back"
            while not (await first.take_part(20) and await second.take_part(20)):
                pass
            assert first.group_metadata().generation_id == second.group_metadata().generation_id
            assert len(first.assignment() | second.assignment()) == 1


@on_stage
async def test_it_needs_a_group_and_topics(stage: Stage) -> None:
    async with stage.reader() as consumer:
        with pytest.raises(NoGroupError):
            await consumer.take_part(0)
    async with stage.reader("t", group_id="g") as consumer:
        await consumer.unsubscribe()
        with pytest.raises(SubscriptionError):
            await consumer.take_part(0)
