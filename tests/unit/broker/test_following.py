"""A broker follows the view of its cluster: no change is lost, whatever else changes with it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from kohort.broker import following
from kohort.broker.broker import BrokerState
from kohort.broker.clock import VirtualClock
from kohort.broker.leadership import led
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.broker.topics import ServedTopic, TopicToCreate
from kohort.cluster.view import ClusterSnapshot, PlacedTopic
from kohort.log.catalog import new_topic_id
from kohort.log.files import storage as file_storage
from kohort.log.files.memory import MemoryDisk
from kohort.log.files.storage import LogStorage
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import TopicName
from kohort.model.topics import Topic, TopicPartition

OLD, NEW = TopicName("old"), TopicName("new")


def run(story: Callable[[BrokerState], Awaitable[None]]) -> None:
    """A broker with the topic ``old`` of two partitions, from its start to its stop."""

    async def started() -> None:
        settings = Settings()
        catalog, storage = await open_data(settings, MemoryDisk())
        broker = BrokerState(settings, catalog, storage, VirtualClock())
        await broker.start()
        try:
            await broker.topics.create(TopicToCreate(OLD, 2))
            await story(broker)
        finally:
            await broker.stop()

    asyncio.run(asyncio.wait_for(started(), 30))


def see(broker: BrokerState, view: ClusterSnapshot) -> None:
    """The cluster has another view: several changes that arrive as one."""
    old, new = broker.catalog.view, replace(view, version=view.version + 2, changed=None)
    broker.catalog._view = new  # type: ignore[attr-defined]
    broker.following._changed(old, new)


def made(broker: BrokerState, name: TopicName) -> PlacedTopic:
    """A topic that another node has created, on the nodes of ``old``."""
    return PlacedTopic(Topic(name, new_topic_id(), 2, {}), broker.catalog.view.topics[OLD].partitions)


def opened(broker: BrokerState) -> int:
    """How many logs are open."""
    assert isinstance(broker.storage, LogStorage)
    return len(list(broker.storage.logs()))


async def steps(broker: BrokerState, work: Awaitable[object]) -> list[int]:
    """How many logs are opened or closed in each turn of the loop that changes their number."""
    task, found = asyncio.ensure_future(work), [opened(broker)]
    while not task.done():
        await asyncio.sleep(0)
        found.append(opened(broker))
    await task
    return [abs(new - old) for old, new in pairwise(found) if new != old]


def topic_ids(topic: ServedTopic | None) -> list[bytes]:
    return [] if topic is None else [topic.logs[index].topic_id for index in sorted(topic.logs)]


@pytest.mark.parametrize("name", [NEW, OLD], ids=["a new topic", "a topic that was made again"])
def test_a_topic_is_followed_also_when_the_defaults_of_the_broker_change_with_it(name: TopicName) -> None:
    async def story(broker: BrokerState) -> None:
        seen: list[tuple[str, bool]] = []
        view, placed, old = broker.catalog.view, made(broker, name), broker.topics.get(OLD)
        assert old is not None
        broker.coordinator.topic_followed = lambda topic, *, is_new: seen.append((topic.name, is_new))  # type: ignore[method-assign]
        configs = {"": {"max.message.bytes": "7777"}}
        see(broker, replace(view, topics={**view.topics, name: placed}, broker_configs=configs))
        await broker.following.settled()
        assert seen == [(name, True)]
        assert topic_ids(broker.topics.get(name)) == [placed.topic.topic_id] * 2
        assert (broker.topics.by_id(old.topic_id) is None) == (name == OLD)

    run(story)


def test_partitions_are_opened_and_deleted_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_AT_ONCE", 2)
    monkeypatch.setattr(file_storage, "_AT_ONCE", 2)

    async def story(broker: BrokerState) -> None:
        topics = broker.topics
        assert await steps(broker, topics.create(TopicToCreate(NEW, 5))) == [2, 2, 1]
        topic = topics.get(NEW)
        assert topic is not None
        assert await steps(broker, topics.add_partitions(topic, 10)) == [2, 2, 1]
        assert await steps(broker, topics.delete(topic)) == [2] * 5

    run(story)


def test_a_broker_that_stops_in_the_middle_of_a_new_topic_has_none_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "_AT_ONCE", 2)
    monkeypatch.setattr(file_storage, "_AT_ONCE", 2)

    async def story(broker: BrokerState) -> None:
        creation = asyncio.ensure_future(broker.topics.create(TopicToCreate(NEW, 9)))
        for _ in range(3):
            await asyncio.sleep(0)
        assert 2 < opened(broker) < 2 + 9
        creation.cancel()
        await asyncio.wait([creation])
        assert creation.cancelled()
        await broker.following.settled()
        assert opened(broker) == 2  # those of ``old``
        again = await broker.topics.create(TopicToCreate(NEW, 3))
        assert topic_ids(again) == [again.topic_id] * 3

    run(story)


def test_what_could_not_be_released_is_released_with_the_next_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(broker: BrokerState) -> None:
        storage = broker.storage
        assert isinstance(storage, LogStorage)
        release, released = storage.release, asyncio.Event()
        asked: list[list[TopicPartition]] = []

        async def fails_once(partitions: Sequence[TopicPartition]) -> None:
            asked.append(list(partitions))
            if len(asked) == 1:
                raise OSError(5, "Input/output error")
            await release(partitions)
            released.set()

        monkeypatch.setattr(storage, "release", fails_once)
        view = broker.catalog.view
        placed = view.topics[OLD]
        moved = [each._replace(leader=None) for each in placed.partitions]
        see(broker, replace(view, topics={OLD: PlacedTopic(placed.topic, moved)}))
        await broker.following.settled()
        assert len(list(storage.logs())) == 2
        clock = broker.clock
        assert isinstance(clock, VirtualClock)
        clock.advance(100)
        await released.wait()
        assert asked[0] == asked[1]
        assert list(storage.logs()) == []

    run(story)


def test_a_topic_that_is_made_again_while_its_failed_log_is_recovered_serves_its_own_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(broker: BrokerState) -> None:
        storage, topic = broker.storage, broker.topics.get(OLD)
        assert isinstance(storage, LogStorage)
        assert topic is not None
        partition = topic.logs[0].partition
        storage.log(partition).fail("the disk failed")
        flush = storage.flush

        async def takes_long() -> None:
            monkeypatch.undo()
            await flush()
            await broker.topics.delete(topic)
            await broker.topics.create(TopicToCreate(OLD, 2))

        monkeypatch.setattr(storage, "flush", takes_long)
        with pytest.raises(RefusedError) as refused:
            await storage.reopen(partition)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        again = broker.topics.get(OLD)
        assert again is not None
        assert led(broker, again, 0) is storage.log(partition)

    run(story)


def test_a_recovered_log_of_a_deleted_topic_is_not_served_by_one_of_the_same_name() -> None:
    async def story(broker: BrokerState) -> None:
        topic = broker.topics.get(OLD)
        assert topic is not None
        stale = topic.logs[0]
        await broker.topics.delete(topic)
        again = await broker.topics.create(TopicToCreate(OLD, 2))
        broker.topics.replace_log(stale)
        assert topic_ids(again) == [again.topic_id] * 2

    run(story)
