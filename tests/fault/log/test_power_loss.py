"""The power goes at any operation of a whole node that syncs before it acknowledges: what was acknowledged is
there at the next start, for topics and for ``__consumer_offsets``, and no start asks for a repair."""

import asyncio
from contextlib import suppress

import pytest
from tests.fault.log.test_any_damage import World

from kohort.model.errors import RefusedError
from kohort.model.topics import TopicPartition
from kohort.testing.faults import FakeDisk, PowerLossError, Survival


def power_goes(world: World, moment: int | None) -> None:
    if moment is not None:
        world.disk.power_off_at = moment
    with suppress(PowerLossError, RefusedError):
        asyncio.run(world.live(clean=True))


def operations() -> int:
    world = World()
    power_goes(world, None)
    return world.disk.operations


@pytest.mark.slow
@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.soak)])
def test_nothing_acknowledged_is_lost_at_any_moment(survival: Survival, step: int) -> None:
    total = operations()
    assert total > 300
    for moment in range(1, total + 1, step):
        world = World(FakeDisk())
        power_goes(world, moment)
        world.disk.crash(survival, kept=moment % 90)
        found = asyncio.run(start_and_read(world))
        for partition, contents in world.stored.items():
            for offset, content in contents.items():
                assert found.get(partition, {}).get(offset) == content, f"{moment}: {partition} at {offset}"


async def start_and_read(world: World) -> dict[TopicPartition, dict[int, bytes]]:
    _, storage = await world.start()
    found = await world.readable(storage)
    await storage.close()
    return found
