"""The journal: events with their causes, as records of a topic."""

import asyncio
import json
from typing import Any

from kohort.broker.broker import Broker
from kohort.broker.clock import VirtualClock
from kohort.broker.journal import JournalWriter
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.broker.topics import TopicToCreate
from kohort.groups.causes import CommitReceived, SessionExpired, TargetComputed
from kohort.groups.consumer.events import TargetStored
from kohort.groups.events import Event, MemberRemoved, OffsetRow, OffsetsCommitted
from kohort.log.log import Slice
from kohort.model.ids import Generation, GroupId, MemberId, Offset, Partition, TopicId, TopicName, WallTime
from kohort.model.topics import JOURNAL, show_topic_id
from kohort.records.batch import batches, read_records

EXPIRED = MemberRemoved(GroupId("g"), MemberId("m"), SessionExpired(MemberId("m"), 10_012, 10_000))
GONE = TopicId(b"\0" * 16)
COMMITTED = OffsetsCommitted(
    GroupId("g"),
    (OffsetRow(TopicName("t"), Partition(0), 5, -1, "", WallTime(0)),),
    CommitReceived(MemberId("m"), Generation(1), 1),
)


async def broker_with(**overrides: str) -> Broker:
    settings = Settings(overrides={name.replace("_", "."): value for name, value in overrides.items()})
    catalog, storage = await open_data(settings)
    broker = Broker(settings, catalog, storage, VirtualClock())
    await broker.start()
    return broker


def written(broker: Broker) -> list[dict[str, Any]]:
    topic = broker.topics.get(JOURNAL)
    if topic is None:
        return []
    log = topic.logs[0]
    found = log.read(Offset(0), 1 << 24, limit=log.end_offset, at_least_one=True)
    assert isinstance(found, Slice)
    whole = b"".join(bytes(buffer) for buffer in found.buffers)
    return [
        {"key": record.key, **json.loads(record.value or b"")}
        for position, header in batches(whole)
        for record in read_records(whole, position, header)
    ]


async def journal(broker: Broker, events: list[Event]) -> list[dict[str, Any]]:
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
