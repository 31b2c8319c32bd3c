"""``AsyncAdmin`` and the small reader and writer against real brokers, groups of real consumers included."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from tests.clients.waiting import Deadline
from tests.writing import write

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import CommittedOffset, GroupInfo, NewTopic, Resource, ResourceType
from kohort.client.admin.topics import OffsetSpec
from kohort.client.consumer import AsyncConsumer
from kohort.client.errors import BrokerError
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition

JOIN_SECONDS = 30.0


def with_admin(bootstrap: str, story: Callable[[AsyncAdmin], Awaitable[None]]) -> None:
    async def run() -> None:
        async with AsyncAdmin(bootstrap) as admin:
            await story(admin)

    asyncio.run(run())


def tp(topic: str, number: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), Partition(number))


@contextmanager
def consumer_in(bootstrap: str, group: str, topic: str, **settings: str) -> Iterator[Consumer]:
    """A consumer of another library that is a member of the group and has its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "member",
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + JOIN_SECONDS
        while not consumer.assignment():
            consumer.poll(0.1)
            assert time.monotonic() < deadline, "the consumer was assigned nothing"
        yield consumer
    finally:
        consumer.close()


def test_records_are_trimmed_and_offsets_listed(broker: str, topic: str) -> None:
    async def story(admin: AsyncAdmin) -> None:
        await admin.create_topic(NewTopic(name=topic))
        await write(admin.cluster, topic, [b"%d" % number for number in range(5)], first_timestamp=1_000)
        assert await admin.delete_records({tp(topic, 0): 2}) == {tp(topic, 0): 2}
        for spec, offset in ((OffsetSpec.EARLIEST, 2), (OffsetSpec.LATEST, 5), (1_003, 3), (9_999, -1)):
            found = (await admin.list_offsets({tp(topic, 0): spec}))[tp(topic, 0)]
            assert not isinstance(found, BrokerError)
            assert found.offset == offset

    with_admin(broker, story)


def test_batches_larger_than_the_topic_allows_are_split(broker: str, topic: str) -> None:
    async def story(admin: AsyncAdmin) -> None:
        await admin.create_topic(NewTopic(name=topic, configs={"max.message.bytes": "1500"}))
        texts = [b"%04d" % number * 20 for number in range(100)]
        written = await write(admin.cluster, topic, texts)
        assert [one.offset for one in written] == list(range(100))
        found: list[object] = []
        async with AsyncConsumer(bootstrap_servers=broker) as consumer:
            consumer.assign([(topic, 0)])
            consumer.seek((topic, 0), 0)
            while len(found) < len(texts):
                found += [one.value for one in (await consumer.poll(1_000)).get(tp(topic, 0), [])]
        assert found == texts
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await write(admin.cluster, topic, [b"x" * 3_000])

    with_admin(broker, story)


def test_configs_are_described_and_altered(broker: str, topic: str) -> None:
    resource = Resource(ResourceType.TOPIC, topic)

    async def story(admin: AsyncAdmin) -> None:
        await admin.create_topic(NewTopic(name=topic))
        assert await admin.alter_configs({resource: {"retention.ms": "77"}}) == {resource: None}
        deadline = Deadline("the new value, which a broker of Kafka hears of from its controller")
        while True:
            configs = (await admin.describe_configs([resource]))[resource]
            assert isinstance(configs, dict)
            if configs["retention.ms"].value == "77":
                break
            deadline.check(configs["retention.ms"].value)
        assert not configs["retention.ms"].is_default
        own = (await admin.describe_configs([Resource(ResourceType.BROKER, "1")])).values()
        assert all(isinstance(found, dict) and found["node.id"].value == "1" for found in own)

    with_admin(broker, story)


def test_offsets_of_a_group_without_members_are_set_read_and_deleted(broker: str, topic: str) -> None:
    async def story(admin: AsyncAdmin) -> None:
        await admin.create_topic(NewTopic(name=topic, partitions=2))
        offsets = {
            tp(topic, 0): CommittedOffset(Offset(5), metadata="why"),
            tp(topic, 1): CommittedOffset(Offset(0)),
        }
        assert await admin.alter_group_offsets(topic, offsets) == dict.fromkeys(offsets)
        assert await admin.list_group_offsets(topic) == offsets
        assert await admin.list_group_offsets(topic, [tp(topic, 1)], require_stable=True) == {
            tp(topic, 1): CommittedOffset(Offset(0))
        }
        listed = [one for one in await admin.list_groups(states=["Empty"]) if one.group_id == topic]
        assert [(one.state, one.type) for one in listed] == [("Empty", "classic")]
        assert await admin.delete_group_offsets(topic, [tp(topic, 0)]) == {tp(topic, 0): None}
        assert set(await admin.list_group_offsets(topic)) == {tp(topic, 1)}
        assert await admin.delete_groups([topic]) == {GroupId(topic): None}
        assert await admin.list_group_offsets(topic) == {}

    with_admin(broker, story)


def test_what_is_not_there_is_said_to_be_not_there(broker: str, topic: str) -> None:
    async def story(admin: AsyncAdmin) -> None:
        described = (await admin.describe_groups([topic]))[GroupId(topic)]
        deleted = (await admin.delete_groups([topic]))[GroupId(topic)]
        committed = await admin.alter_group_offsets(topic, {tp("nowhere", 0): CommittedOffset(Offset(1))})
        for error, code in (
            (described, ErrorCode.GROUP_ID_NOT_FOUND),
            (deleted, ErrorCode.GROUP_ID_NOT_FOUND),
            (committed[tp("nowhere", 0)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            assert isinstance(error, BrokerError)
            assert error.code == code

    with_admin(broker, story)


@pytest.mark.slow
def test_a_group_is_described_with_its_members_and_guarded_from_outside(broker: str, topic: str) -> None:
    async def prepare(admin: AsyncAdmin) -> None:
        await admin.create_topic(NewTopic(name=topic, partitions=2))

    async def look(admin: AsyncAdmin) -> None:
        group = (await admin.describe_groups([topic]))[GroupId(topic)]
        assert isinstance(group, GroupInfo)
        assert (group.type, group.state, group.protocol_type) == ("classic", "Stable", "consumer")
        (member,) = group.members
        assert member.client_id == "member"
        assert member.client_host == "/127.0.0.1"
        assert member.assignment == (tp(topic, 0), tp(topic, 1))
        refused = (await admin.delete_groups([topic]))[GroupId(topic)]
        assert isinstance(refused, BrokerError)
        assert refused.code == ErrorCode.NON_EMPTY_GROUP
        altered = await admin.alter_group_offsets(topic, {tp(topic, 0): CommittedOffset(Offset(0))})
        error = altered[tp(topic, 0)]
        assert error is not None
        assert error.code == ErrorCode.UNKNOWN_MEMBER_ID

    with_admin(broker, prepare)
    with consumer_in(broker, topic, topic):
        with_admin(broker, look)


@pytest.mark.slow
def test_a_kip_848_group_shows_epochs_and_targets_where_there_are_any(broker: str, topic: str) -> None:
    served: list[bool] = []

    async def prepare(admin: AsyncAdmin) -> None:
        await admin.create_topic(NewTopic(name=topic, partitions=2))
        connection = await admin.connection_to(1)
        served.append("group.version" in connection.features)  # the API is announced even where it is off

    async def look(admin: AsyncAdmin) -> None:
        group = (await admin.describe_groups([topic]))[GroupId(topic)]
        assert isinstance(group, GroupInfo)
        assert group.type == "consumer"
        assert group.epoch is not None
        (member,) = group.members
        assert member.subscribed == (topic,)
        assert member.target == (tp(topic, 0), tp(topic, 1))

    with_admin(broker, prepare)
    if not served[0]:
        pytest.skip("this broker has classic groups only")
    with consumer_in(broker, topic, topic, **{"group.protocol": "consumer"}):
        with_admin(broker, look)
