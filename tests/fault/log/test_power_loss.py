"""The power goes at any operation of a whole node: what was synced before it was acknowledged is there at the
next start, and no start asks for a repair. ``__consumer_offsets`` and the catalog are synced under every
policy, other topics under COMMIT."""

import asyncio
from contextlib import suppress

import pytest
from tests.fault.log.test_any_damage import World

from kohort.log.files.log_files import StorageSettings
from kohort.log.log import SyncPolicy
from kohort.model.errors import RefusedError
from kohort.model.topics import CONSUMER_OFFSETS, Topic, TopicPartition
from kohort.testing.faults import PowerLossError, Survival

STEPS = {SyncPolicy.COMMIT: 13, SyncPolicy.INTERVAL: 37, SyncPolicy.NEVER: 37}


def node(policy: SyncPolicy) -> World:
    settings = StorageSettings(data_policy=policy, internal_policy=SyncPolicy.COMMIT, sync_interval_ms=0)
    return World(settings=settings)


def power_goes(world: World, moment: int | None) -> None:
    if moment is not None:
        world.disk.power_off_at = moment
    with suppress(PowerLossError, RefusedError):
        asyncio.run(world.live(clean=True))


def operations(policy: SyncPolicy) -> int:
    world = node(policy)
    power_goes(world, None)
    return world.disk.operations


def check_all_moments(policy: SyncPolicy, survival: Survival, step: int) -> None:
    total = operations(policy)
    assert total > 300
    for moment in range(1, total + 1, step):
        world = node(policy)
        power_goes(world, moment)
        world.disk.crash(survival, kept=moment % 90)
        topics, found = asyncio.run(start_and_read(world))
        for name, topic in world.topics.items():
            assert topics.get(name) == topic, f"{moment}: {name}"
        for partition, contents in world.stored.items():
            if policy is SyncPolicy.COMMIT or partition.topic == CONSUMER_OFFSETS:
                for offset, content in contents.items():
                    assert found.get(partition, {}).get(offset) == content, (
                        f"{moment}: {partition} at {offset}"
                    )


async def start_and_read(
    world: World,
) -> tuple[dict[str, Topic], dict[TopicPartition, dict[int, bytes]]]:
    catalog, storage = await world.start()
    topics = {str(name): topic for name, topic in catalog.topics.items()}
    found = await world.readable(storage)
    await storage.close()
    return topics, found


@pytest.mark.slow
@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("policy", list(SyncPolicy))
def test_nothing_acknowledged_is_lost_at_any_moment(policy: SyncPolicy, survival: Survival) -> None:
    check_all_moments(policy, survival, STEPS[policy])


@pytest.mark.soak
@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("policy", list(SyncPolicy))
def test_nothing_acknowledged_is_lost_at_every_moment(policy: SyncPolicy, survival: Survival) -> None:
    check_all_moments(policy, survival, 1)
