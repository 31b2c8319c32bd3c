"""Whenever a call is cancelled, what it had to leave in order is in order."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from tests.unit.client.consumer.stage import Stage, joined, on_stage
from tests.unit.client.interrupted import every_interruption

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import GroupInfo
from kohort.client.consumer import AsyncConsumer
from kohort.client.subscription import Partitions
from kohort.model.ids import GroupId


class _GivesWay:
    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        await asyncio.sleep(0)

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        await asyncio.sleep(0)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        await asyncio.sleep(0)


@pytest.mark.slow
@on_stage
async def test_a_close_that_is_cancelled_anywhere_leaves_the_group_and_closes_its_connections(
    stage: Stage,
) -> None:
    async def prepare() -> Callable[[], Coroutine[None, None, None]]:
        consumer = AsyncConsumer(
            bootstrap_servers=stage.broker.bootstrap, group_id="g", auto_offset_reset="earliest"
        )
        consumer.subscribe(["t"], listener=_GivesWay())
        await consumer.start()
        await joined(consumer)
        return consumer.close

    async for where in every_interruption(prepare):
        await stage.broker.server.all_closed()
        async with AsyncAdmin(stage.broker.bootstrap) as admin:
            described = (await admin.describe_groups(["g"]))[GroupId("g")]
        assert isinstance(described, GroupInfo), where
        assert not described.members, where


@pytest.mark.slow
@on_stage
async def test_an_unsubscribe_that_is_cancelled_anywhere_leaves_the_group(stage: Stage) -> None:
    started: list[AsyncConsumer] = []

    async def prepare() -> Callable[[], Coroutine[None, None, None]]:
        consumer = AsyncConsumer(
            bootstrap_servers=stage.broker.bootstrap, group_id="g", auto_offset_reset="earliest"
        )
        consumer.subscribe(["t"], listener=_GivesWay())
        await consumer.start()
        await joined(consumer)
        started.append(consumer)
        return consumer.unsubscribe

    async for where in every_interruption(prepare):
        assert not started[-1].subscription(), where
        assert not started[-1].assignment(), where
        assert started[-1].group_metadata().generation_id == -1, where
    for consumer in started:
        await consumer.close()
