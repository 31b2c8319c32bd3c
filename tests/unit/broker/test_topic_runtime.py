"""Reading the partitions of ``__consumer_offsets``: one after another, and never in anybody's way."""

import asyncio
from typing import Any

import pytest

from kohort.broker import topic_runtime
from kohort.broker.broker import BrokerState
from kohort.broker.clock import VirtualClock
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.groups.commands import ListGroups
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ListReply
from kohort.groups.shard import Shard
from kohort.log.files.memory import MemoryDisk
from kohort.log.files.segmented import SegmentedLog
from kohort.log.log import Append, Slice
from kohort.model.ids import Now, WallTime
from kohort.records.batch import NewRecord, build_batch
from kohort.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.records.offsets_topic import encode_key, encode_value

GOOD = encode_value(GroupMetadataValue("consumer", 3, None, None, 5, []))
NEWER = b"\x00\x09 of a version that is not known yet"
PARTITIONS = 3


async def started(disk: MemoryDisk, clock: VirtualClock | None = None) -> BrokerState:
    settings = Settings(overrides={"offsets.topic.num.partitions": str(PARTITIONS)})
    catalog, storage = await open_data(settings, disk)
    broker = BrokerState(settings, catalog, storage, clock or VirtualClock())
    await broker.start()
    return broker


async def stored(*values: bytes, offsets: int = 1) -> MemoryDisk:
    """A disk with one group in each partition, its record and some batches of offsets."""
    disk = MemoryDisk()
    broker = await started(disk)
    await broker.coordinator.ensure_offsets_topic()
    topic = broker.topics.get("__consumer_offsets")
    assert topic is not None
    for log, value in zip(topic.logs.values(), values, strict=True):
        group = f"g{log.partition.partition}"
        commit = NewRecord(1, encode_key(OffsetCommitKey(group, "t", 0)), encode_value(OffsetCommitValue(7)))
        batches = [[NewRecord(1, encode_key(GroupMetadataKey(group)), value)], *[[commit]] * offsets]
        for records in batches:
            batch = bytearray(build_batch(records))
            append = Append(log.partition, batch, log.leader_epoch, WallTime(0), from_client=False)
            await broker.storage.append([append])
    await broker.stop()
    return disk


def groups_of(broker: BrokerState) -> list[str]:
    """The groups that can be asked for."""
    replies = broker.coordinator.ask_all(lambda reply_to: ListGroups(reply_to=reply_to))
    found = [reply for reply in replies if isinstance(reply, ListReply)]
    return sorted(group.group_id for reply in found for group in reply.groups)


def test_a_group_that_cannot_be_read_takes_only_its_own_partition_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        broker = await started(await stored(NEWER, GOOD, GOOD))
        await broker.coordinator.ready()
        assert groups_of(broker) == ["g1", "g2"]
        await broker.stop()

    asyncio.run(run())
    assert "cannot load group 'g0': a GroupMetadataValue has version 9" in caplog.text


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), ValueError("a bug")])
def test_a_read_that_fails_delays_its_own_partition_only_and_is_tried_until_it_succeeds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    read = SegmentedLog.read
    failures = 3

    def failing(self: SegmentedLog, *args: Any, **keywords: Any) -> Slice:  # noqa: ANN401 - handed through
        nonlocal failures
        if self.partition.partition == 0 and failures:
            failures -= 1
            raise failure
        return read(self, *args, **keywords)

    async def run() -> None:
        clock = VirtualClock()
        broker = await started(await stored(GOOD, GOOD, GOOD), clock)
        await broker.coordinator.ready()
        assert groups_of(broker) == ["g1", "g2"]
        for delay in (100, 200, 400):
            clock.advance(delay - 1)
            await broker.coordinator.ready()
            assert groups_of(broker) == ["g1", "g2"]
            clock.advance(1)
            await broker.coordinator.ready()
        assert groups_of(broker) == ["g0", "g1", "g2"]
        await broker.stop()

    monkeypatch.setattr(SegmentedLog, "read", failing)
    asyncio.run(run())
    said = [record.message for record in caplog.records if "cannot be loaded" in record.message]
    assert len(said) == 3
    assert said[0].startswith("__consumer_offsets-0 cannot be loaded, the next attempt is in 100 ms")


def test_a_broker_that_stops_gives_up_a_partition_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = 0

    def failing(*_: Any, **__: Any) -> Slice:  # noqa: ANN401 - never looked at
        nonlocal attempts
        attempts += 1
        raise OSError(5, "Input/output error")

    async def run() -> None:
        clock = VirtualClock()
        broker = await started(await stored(GOOD, GOOD, GOOD), clock)
        await broker.coordinator.ready()
        await broker.stop()
        clock.advance(1_000_000)
        await broker.coordinator.ready()

    monkeypatch.setattr(SegmentedLog, "read", failing)
    asyncio.run(run())
    assert attempts == PARTITIONS


def test_what_cannot_be_brought_to_life_is_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    finish = Shard.finish_load
    failures = 0

    def failing(self: Shard, now: Now) -> Outcome:
        nonlocal failures
        if not self.state.offsets.groups:
            return finish(self, now)
        failures += 1
        raise ValueError("a bug")

    async def run() -> None:
        broker = await started(await stored(GOOD, GOOD, GOOD))
        await broker.coordinator.ready()
        assert groups_of(broker) == []
        await broker.stop()

    monkeypatch.setattr(Shard, "finish_load", failing)
    asyncio.run(run())
    assert failures == PARTITIONS
    assert "the coordinator cannot be built from its log" in caplog.text


def test_a_lack_of_memory_while_groups_come_to_life_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Shard.finish_load
    failures = 1

    def failing(self: Shard, now: Now) -> Outcome:
        nonlocal failures
        if self.state.offsets.groups and failures:
            failures -= 1
            raise MemoryError
        return finish(self, now)

    async def run() -> None:
        clock = VirtualClock()
        broker = await started(await stored(GOOD, GOOD, GOOD), clock)
        await broker.coordinator.ready()
        assert groups_of(broker) == ["g1", "g2"]
        clock.advance(100)
        await broker.coordinator.ready()
        assert groups_of(broker) == ["g0", "g1", "g2"]
        await broker.stop()

    monkeypatch.setattr(Shard, "finish_load", failing)
    asyncio.run(run())


def test_others_have_the_loop_between_two_batches_and_between_two_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def run() -> None:
        broker = await started(await stored(GOOD, GOOD, GOOD, offsets=20))
        others = asyncio.ensure_future(count_turns())
        await broker.coordinator.ready()
        others.cancel()
        assert turns >= PARTITIONS * (1 + 20 + 1)
        assert groups_of(broker) == ["g0", "g1", "g2"]
        await broker.stop()

    monkeypatch.setattr(topic_runtime, "_SLICE_S", -1.0)
    asyncio.run(run())


def test_groups_come_to_life_some_at_a_time_and_none_can_be_asked_before_all_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load_more = Shard.load_more
    seen: list[tuple[int, int]] = []  # how many are alive, how many partitions say that they are loading

    async def run() -> None:
        broker = await started(await stored(GOOD, GOOD, GOOD))

        def waking(self: Shard, now: Now) -> Outcome | None:
            outcome = load_more(self, now)
            replies = broker.coordinator.ask_all(lambda reply_to: ListGroups(reply_to=reply_to))
            loading = [reply for reply in replies if isinstance(reply, ListReply) and reply.error == 14]
            seen.append((len(self.state.groups), len(loading)))
            return outcome

        monkeypatch.setattr(Shard, "load_more", waking)
        await broker.coordinator.ready()
        await broker.stop()

    asyncio.run(run())
    assert seen == [(alive, loading) for loading in (3, 2, 1) for alive in (0, 1, 1)]
