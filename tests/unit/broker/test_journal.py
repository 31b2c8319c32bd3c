"""The journal: events with their causes, as records of a topic."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from kohort.broker.broker import BrokerState
from kohort.broker.clock import VirtualClock
from kohort.broker.journal import JournalWriter
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.broker.topics import TopicToCreate
from kohort.cluster.lease import SessionId
from kohort.groups.causes import CommitReceived, SessionExpired, TargetComputed
from kohort.groups.consumer.events import TargetStored
from kohort.groups.events import Event, MemberRemoved, OffsetRow, OffsetsCommitted
from kohort.log.log import Append, Appended, Log, Slice, Storage
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import (
    Generation,
    GroupId,
    MemberId,
    Offset,
    Partition,
    TopicId,
    TopicName,
    WallTime,
)
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL, show_topic_id
from kohort.primitives.strings import partition_for
from kohort.records.batch import batches, read_records

EXPIRED = MemberRemoved(GroupId("g"), MemberId("m"), SessionExpired(MemberId("m"), 10_012, 10_000))
GONE = TopicId(b"\0" * 16)
COMMITTED = OffsetsCommitted(
    GroupId("g"),
    (OffsetRow(TopicName("t"), Partition(0), 5, -1, "", WallTime(0)),),
    CommitReceived(MemberId("m"), Generation(1), 1),
)


async def broker_with(**overrides: str) -> BrokerState:
    settings = Settings(overrides={name.replace("_", "."): value for name, value in overrides.items()})
    catalog, storage = await open_data(settings)
    broker = BrokerState(settings, catalog, storage, VirtualClock())
    await broker.start()
    return broker


def written(broker: BrokerState, partition: int = 0) -> list[dict[str, Any]]:
    topic = broker.topics.get(JOURNAL)
    if topic is None:
        return []
    log = topic.logs[partition]
    found = log.read(Offset(0), 1 << 24, limit=log.end_offset, at_least_one=True)
    assert isinstance(found, Slice)
    whole = b"".join(bytes(buffer) for buffer in found.buffers)
    return [
        {"key": record.key, **json.loads(record.value or b"")}
        for position, header in batches(whole)
        for record in read_records(whole, position, header)
    ]


async def journal(broker: BrokerState, events: list[Event]) -> list[dict[str, Any]]:
    writer = JournalWriter(broker.topics, broker.storage, broker.configs, broker.clock)
    writer.start()
    writer.write(events)
    await writer.stop()
    found = written(broker)
    await broker.stop()
    return found


def test_events_are_records_of_the_journal_with_their_cause() -> None:
    async def run() -> None:
        (document,) = await journal(await broker_with(), [EXPIRED])
        assert document == {
            "key": b"g",
            "schema": 1,
            "at": 1_700_000_000_000,
            "group": "g",
            "event": "MemberRemoved",
            "details": {"member_id": "m"},
            "cause": {
                "kind": "SessionExpired",
                "sentence": "session of m expired: last heartbeat 10,012 ms ago, timeout 10,000",
                "member_id": "m",
                "silent_ms": 10_012,
                "timeout_ms": 10_000,
            },
        }

    asyncio.run(run())


def test_commits_are_left_out_unless_they_are_asked_for() -> None:
    async def run() -> None:
        assert await journal(await broker_with(), [COMMITTED]) == []
        (document,) = await journal(await broker_with(kohort_journal_commits="true"), [COMMITTED])
        assert document["details"]["rows"][0]["offset"] == 5

    asyncio.run(run())


def test_events_that_cannot_be_kept_up_with_leave_a_gap() -> None:
    async def run() -> None:
        found = await journal(await broker_with(), [EXPIRED] * 10_050)
        assert sum(document["event"] == "MemberRemoved" for document in found) == 10_000
        (gap,) = [document for document in found if document["event"] == "JournalGap"]
        assert gap["details"] == {"dropped": 50}
        assert gap["key"] is None

    asyncio.run(run())


class _Refusing:
    """A storage that refuses one partition, and takes the others."""

    def __init__(self, storage: Storage, refused: int) -> None:
        self._storage = storage
        self._refused = refused

    def append(self, appends: Sequence[Append]) -> "asyncio.Future[list[Appended | RefusedError]]":
        refusal = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
        taken = [each for each in appends if each.partition.partition != self._refused]
        stored = iter(self._storage.append(taken).result())
        done: asyncio.Future[list[Appended | RefusedError]] = asyncio.get_running_loop().create_future()
        done.set_result([next(stored) if each in taken else refusal for each in appends])
        return done


def test_one_partition_that_is_refused_costs_its_own_events_only() -> None:
    async def run() -> None:
        broker = await broker_with()
        await broker.topics.create(TopicToCreate(JOURNAL, 4))
        events = [replace(EXPIRED, group_id=GroupId(f"g{number}")) for number in range(40)]
        of = [partition_for(event.group_id, 4) for event in events]
        storage = cast("Storage", _Refusing(broker.storage, 1))
        writer = JournalWriter(broker.topics, storage, broker.configs, broker.clock)
        writer.start()
        writer.write(events)
        await writer.written()
        assert [len(written(broker, each)) for each in range(4)] == [of.count(0), 0, of.count(2), of.count(3)]
        writer.write([event for event, partition in zip(events, of, strict=True) if partition == 0][:1])
        await writer.stop()
        assert written(broker)[-1]["details"] == {"dropped": of.count(1)}
        await broker.stop()

    asyncio.run(run())


async def node_with_a_shard(shard_leader: int, journal_leader: int) -> tuple[BrokerState, JournalWriter, Log]:
    """A node, counted from 0 as the other one from 1, whose partition of the journal is not open yet."""
    broker = await broker_with()
    session = broker.catalog.session
    topics = [await broker.topics.create(TopicToCreate(name, 1)) for name in (CONSUMER_OFFSETS, JOURNAL)]
    for topic, leader in zip(topics, (shard_leader, journal_leader), strict=True):
        topic.placed = [topic.placed[0]._replace(leader=SessionId(session + leader))]
    writer = JournalWriter(broker.topics, broker.storage, broker.configs, broker.clock, lambda: session)
    writer.start()
    return broker, writer, topics[1].logs.pop(0)


@pytest.mark.parametrize("journal_leader", [0, 1], ids=["led here", "still led elsewhere"])
def test_events_of_a_shard_that_comes_to_this_node_wait_for_its_partition(journal_leader: int) -> None:
    async def run() -> None:
        broker, writer, log = await node_with_a_shard(0, journal_leader)
        writer.write([EXPIRED])
        await asyncio.sleep(0)
        topic = broker.topics.get(JOURNAL)
        assert topic is not None
        topic.logs[0] = log
        assert isinstance(broker.clock, VirtualClock)
        for _ in range(50):
            broker.clock.advance(100)
            await asyncio.sleep(0)
        await writer.stop()
        assert [each["event"] for each in written(broker)] == ["MemberRemoved"]
        await broker.stop()

    asyncio.run(run())


def test_events_of_a_shard_that_has_moved_are_left_to_its_new_node() -> None:
    async def run() -> None:
        broker, writer, _ = await node_with_a_shard(1, 0)
        writer.write([EXPIRED])
        await writer.stop()
        await broker.stop()
        assert writer.dropped == 0

    asyncio.run(run())


def test_how_long_the_journal_is_kept_is_a_setting() -> None:
    async def run() -> None:
        broker = await broker_with(kohort_journal_retention_ms="1000")
        await journal(broker, [EXPIRED])
        topic = broker.topics.get(JOURNAL)
        assert topic is not None
        assert topic.configs["retention.ms"] == "1000"
        assert topic.is_internal

    asyncio.run(run())


def test_an_assignment_of_a_consumer_group_comes_with_the_names_of_its_topics() -> None:
    async def run() -> None:
        broker = await broker_with()
        topic = await broker.topics.create(TopicToCreate(TopicName("orders"), 2))
        partitions = {
            topic.topic_id: frozenset({Partition(1)}),
            TopicId(b"\0" * 16): frozenset({Partition(0)}),
        }
        target = TargetStored(GroupId("g"), MemberId("m"), partitions, TargetComputed(1, "uniform", 1))
        (document,) = await journal(broker, [target])
        known, gone = show_topic_id(topic.topic_id), show_topic_id(GONE)
        assert document["details"]["partitions"] == {known: [1], gone: [0]}
        assert document["topics"] == {known: "orders"}

    asyncio.run(run())
