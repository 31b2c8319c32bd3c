"""aiokafka as an administrator: topics, configs, partitions, records, groups (it cannot delete groups)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.clients.libraries import Library, Membership, Production, ReadPartition, Untyped, quietly
from tests.clients.party import Party
from tests.clients.records import samples
from tests.clients.with_aiokafka import aiokafka, errors

from kohort.testing.plugin import Kohort

admin_api = quietly("aiokafka.admin")
TOPIC_RESOURCE = quietly("aiokafka.admin.config_resource").ConfigResourceType.TOPIC


@asynccontextmanager
async def admin(kohort: Kohort) -> AsyncIterator[Untyped]:
    made = admin_api.AIOKafkaAdminClient(bootstrap_servers=kohort.bootstrap)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def config(client: Untyped, topic: str, name: str) -> str:
    asked = admin_api.config_resource.ConfigResource(TOPIC_RESOURCE, topic)
    (answer,) = await client.describe_configs([asked])
    (resource,) = answer.resources
    (value,) = [entry[1] for entry in resource[4] if entry[0] == name]
    assert isinstance(value, str)
    return value


def test_creates_describes_and_deletes_a_topic(kohort: Kohort) -> None:
    async def administer() -> None:
        async with admin(kohort) as client:
            wanted = admin_api.NewTopic(topic, 3, 1, topic_configs={"retention.ms": "60000"})
            answer = await client.create_topics([wanted])
            assert [error[1] for error in answer.topic_errors] == [0]

            assert topic in await client.list_topics()
            (described,) = await client.describe_topics([topic])
            assert sorted(part["partition"] for part in described["partitions"]) == [0, 1, 2]
            assert await config(client, topic, "retention.ms") == "60000"

            again = await client.create_topics([wanted])
            assert [error[1] for error in again.topic_errors] == [errors.TopicAlreadyExistsError.errno]
            await client.delete_topics([topic])
            assert topic not in await client.list_topics()

    topic = kohort.topic() + "-made"
    asyncio.run(administer())


def test_alters_configs_by_replacing_them(kohort: Kohort) -> None:
    async def administer() -> None:
        async with admin(kohort) as client:
            wanted = admin_api.config_resource.ConfigResource(
                TOPIC_RESOURCE, topic, configs={"segment.ms": "7000"}
            )
            await client.alter_configs([wanted])
            assert await config(client, topic, "segment.ms") == "7000"
            assert await config(client, topic, "retention.ms") == "604800000"

    topic = kohort.topic(configs={"retention.ms": "5000"})
    asyncio.run(administer())


def test_describes_the_cluster(kohort: Kohort) -> None:
    async def administer() -> dict[str, Untyped]:
        async with admin(kohort) as client:
            described: dict[str, Untyped] = await client.describe_cluster()
            return described

    cluster = asyncio.run(administer())

    assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [kohort.bootstrap]
    assert cluster["controller_id"] == 1


@pytest.mark.slow
def test_adds_partitions_and_deletes_records(kohort: Kohort, libraries: dict[str, Library]) -> None:
    async def add() -> None:
        async with admin(kohort) as client:
            await client.create_partitions({topic: admin_api.NewPartitions(2)})
            with pytest.raises(errors.InvalidPartitionsError):
                await client.create_partitions({topic: admin_api.NewPartitions(1)})

    async def delete() -> None:
        async with admin(kohort) as client:
            deleted = await client.delete_records({one: admin_api.RecordsToDelete(before_offset=5)})
            assert deleted == {one: 5}

    topic = kohort.topic()
    one = aiokafka.TopicPartition(topic, 1)
    asyncio.run(add())
    libraries["aiokafka"].produce(kohort.bootstrap, topic, samples(40, partitions=2), Production())
    asyncio.run(delete())

    records = libraries["aiokafka"].read(kohort.bootstrap, topic, 2, 35)
    assert min(record.offset for record in records if record.place.partition == 1) == 5


@pytest.mark.slow
def test_lists_and_describes_groups_and_their_offsets(kohort: Kohort, libraries: dict[str, Library]) -> None:
    async def administer() -> None:
        async with admin(kohort) as client:
            assert (group, "consumer") in await client.list_consumer_groups()
            (answer,) = await client.describe_consumer_groups([group])
            (described,) = answer.groups
            code, group_id, state, kind, protocol, members, *_ = described
            assert (code, group_id, state, kind, protocol) == (0, group, "Stable", "consumer", "range")
            assert [(member[1], member[2]) for member in members] == [("worker", "/127.0.0.1")]
            offsets = await client.list_consumer_group_offsets(group)
            assert {tuple(place): found.offset for place, found in offsets.items()} == {(topic, 1): 7}

    topic, group = kohort.topic(partitions=2), kohort.group()
    with Party(kohort.bootstrap) as party:
        membership = Membership(name="worker", group=group, topics=(topic,))
        worker = party.join(libraries["aiokafka"], membership)
        party.until_shared("worker", places=2)
        worker.commit({ReadPartition(topic, 1): 7})
        asyncio.run(administer())
