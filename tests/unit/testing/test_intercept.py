"""Interception: see, answer, delay, corrupt or cut off requests, by API, client, topic or group."""

import asyncio

import pytest

from kohort.client.addresses import parse_address
from kohort.client.connection import ClientConnection, open_connection
from kohort.client.settings import ClientOptions
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode, KohortError
from kohort.testing.broker import AsyncBroker
from kohort.testing.intercept import (
    answer,
    api_named,
    corrupt,
    cut_off,
    cut_off_after,
    delay,
    names_in,
    swallow,
    watch,
)
from kohort.wire.apis import ApiKey
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


async def connect(broker: AsyncBroker, client_id: str = "c", timeout_ms: int = 5_000) -> ClientConnection:
    options = ClientOptions(client_id=client_id, request_timeout_ms=timeout_ms)
    return await open_connection(parse_address(broker.bootstrap), options)


def metadata(topic: str = "t") -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)


BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_a_watched_request_is_seen_and_answered_as_ever() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            rule = broker.intercept(watch, api="Metadata", client="c")
            connection = await connect(broker)
            reply = await connection.send(metadata(), MetadataResponse)
            assert reply.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert [(seen.api, seen.client_id) for seen in rule.seen] == [("Metadata", "c")]
            connection.close()

    asyncio.run(run())


def test_a_rule_applies_where_all_its_filters_match_and_so_often() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            denied = answer(MetadataResponse(topics=[]))
            rule = broker.intercept(denied, api="metadata", topic="secret", times=1)
            connection = await connect(broker)
            assert (await connection.send(metadata("open"), MetadataResponse)).topics
            assert not (await connection.send(metadata("secret"), MetadataResponse)).topics
            assert (await connection.send(metadata("secret"), MetadataResponse)).topics
            assert len(rule.seen) == 1
            connection.close()

    asyncio.run(run())


def test_the_newest_rule_comes_first_and_all_can_be_forgotten() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            broker.intercept(answer(HeartbeatResponse(error_code=1)), group="g")
            broker.intercept(answer(lambda _request: HeartbeatResponse(error_code=2)), group="g")
            connection = await connect(broker)
            assert (await connection.send(BEAT, HeartbeatResponse)).error_code == 2
            broker.stop_intercepting()
            assert (await connection.send(BEAT, HeartbeatResponse)).error_code == ErrorCode.NOT_COORDINATOR
            connection.close()

    asyncio.run(run())


def test_a_request_that_is_cut_off_never_happened() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            broker.intercept(cut_off, api="CreateTopics")
            connection = await connect(broker)
            with pytest.raises(KohortError):
                await connection.send(CreateTopicsRequest(topics=[topic()]), CreateTopicsResponse)
            assert broker.server.broker.topics.get("new") is None
            connection.close()

    asyncio.run(run())


def topic() -> CreatableTopic:
    return CreatableTopic(name="new", num_partitions=1, replication_factor=1)


def test_a_request_that_is_cut_off_afterwards_has_happened() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            broker.intercept(cut_off_after, api="CreateTopics")
            connection = await connect(broker)
            with pytest.raises(KohortError):
                await connection.send(CreateTopicsRequest(topics=[topic()]), CreateTopicsResponse)
            assert broker.server.broker.topics.get("new") is not None
            connection.close()

    asyncio.run(run())


def test_a_delayed_request_is_answered_after_the_others() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            slow, fast = await connect(broker, "fast"), await connect(broker, "fast")
            broker.intercept(delay(0.05), api="Metadata", topic="slow")
            order: list[str] = []

            async def ask(connection: ClientConnection, name: str) -> None:
                await connection.send(metadata(name), MetadataResponse)
                order.append(name)

            await asyncio.gather(ask(slow, "slow"), ask(fast, "fast"))
            assert order == ["fast", "slow"]
            slow.close()
            fast.close()

    asyncio.run(run())


def test_a_swallowed_request_is_never_answered() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            broker.intercept(swallow, api="Metadata")
            connection = await connect(broker, timeout_ms=100)
            with pytest.raises(KohortError):
                await connection.send(metadata(), MetadataResponse)
            connection.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("request_", "type_of_reply"),
    [(metadata(), MetadataResponse), (CreateTopicsRequest(topics=[topic()]), CreateTopicsResponse)],
)
def test_a_corrupted_reply_cannot_be_read(request_: Message, type_of_reply: type[Message]) -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            connection = await connect(broker)
            broker.intercept(corrupt(lambda body: body[:-3]))
            with pytest.raises(KohortError):
                await connection.send(request_, type_of_reply)
            connection.close()

    asyncio.run(run())


def test_names_are_found_however_deep() -> None:
    assert names_in(metadata("t"), frozenset({"name"})) == {"t"}
    assert names_in(FindCoordinatorRequest(coordinator_keys=["a", "b"]), frozenset({"coordinator_keys"})) == {
        "a",
        "b",
    }


@pytest.mark.parametrize("name", ["JoinGroup", "join_group", "JOINGROUP", 11])
def test_an_api_goes_by_several_names(name: str | int) -> None:
    assert api_named(name) is ApiKey.JOIN_GROUP


def test_an_api_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no API is called 'Join'"):
        api_named("Join")
