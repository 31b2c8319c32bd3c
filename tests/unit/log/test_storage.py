"""The logs of a node: deleted, reopened, kept from other topics, few files open."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.log.bench import (
    COMPACTED,
    EPOCH,
    OTHER,
    PARTITION,
    TOPIC_ID,
    Bench,
    OnDemand,
    append_of,
    batch,
    code_of,
    committing,
    turn,
)

from kohort.log.files.compaction import Work
from kohort.log.files.leftovers import SWAP
from kohort.log.log import LogConfig, LogSpec
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset, TopicId, WallTime
from kohort.model.topics import Topic
from kohort.testing.faults import FakeDisk, Kind, Outage


def test_a_deleted_log_is_gone_from_disk_and_memory() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(batch(b"a"))
    bench.storage.delete_log(PARTITION)
    assert bench.advanced[-1] == PARTITION
    assert [entry.name for entry in disk.entries("data") if entry.is_directory] == []
    with pytest.raises(RefusedError):
        bench.storage.log(PARTITION)
    assert bench.refuse(batch(b"b")).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.log = bench.open_log(PARTITION)
    bench.append(batch(b"new"))
    assert bench.records()[0].offset == 0


def test_a_deleted_log_that_cannot_be_removed_keeps_no_other_from_being_removed() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.open_log(OTHER)
    bench.try_append([append_of(batch(b"a")), append_of(batch(b"b"), OTHER)])
    disk.suffer(Outage(Kind.UNLINK, 1, 100))
    bench.storage.delete_log(PARTITION)
    bench.storage.delete_log(OTHER)
    disk.suffer(Outage(Kind.UNLINK, 1))
    with pytest.raises(OSError, match="data/"):
        bench.run(bench.storage.remove_deleted())
    assert len([entry for entry in disk.entries("data") if entry.is_directory]) == 1
    bench.run(bench.storage.remove_deleted())
    assert [entry for entry in disk.entries("data") if entry.is_directory] == []


def test_deleting_what_was_never_written_or_never_there_is_fine() -> None:
    bench = Bench(FakeDisk())
    bench.storage.delete_log(PARTITION)
    bench.storage.delete_log(PARTITION)
    assert list(bench.storage.logs()) == []


def test_deleting_a_log_while_it_is_synced_is_fine() -> None:
    executor = OnDemand()
    bench = committing(FakeDisk(), executor)

    async def story() -> None:
        future = bench.storage.append([append_of(batch(b"a"))])
        await turn()
        bench.storage.delete_log(PARTITION)
        executor.work()
        (result,) = await future
        assert code_of(result) in (None, ErrorCode.KAFKA_STORAGE_ERROR)

    bench.run(story())


def test_a_directory_of_another_topic_with_the_same_name_is_refused() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(batch(b"a"))
    bench.close()
    bench.open()
    bench.storage._logs.clear()
    spec = LogSpec(
        partition=PARTITION, topic_id=TopicId(b"x" * 16), leader_epoch=LeaderEpoch(EPOCH), config=LogConfig()
    )
    with pytest.raises(RefusedError, match="move it out"):
        bench.storage.open_log(spec)


def test_a_directory_that_lost_its_topic_id_is_taken_over_and_told() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(batch(b"a"))
    bench.close()
    disk.open(f"data/{PARTITION}/partition.metadata").truncate(3)
    bench.open()
    assert "did not say to which topic it belongs" in bench.storage.reports()[0].what
    assert bench.values() == [b"a"]
    bench.restart()
    assert bench.storage.reports() == []


def test_few_files_are_open_however_many_segments_there_are() -> None:
    bench = Bench(FakeDisk(), config=LogConfig(segment_bytes=100))
    bench.storage._open_files._most = 3
    bench.append(*[batch(b"%d" % number) for number in range(30)])
    assert len(bench.storage._open_files) == 3
    assert len(bench.records()) == 30
    assert bench.records(11)[0].value == b"11"
    assert len(bench.storage._open_files) == 3
    bench.append(batch(b"more"))
    bench.restart()
    assert len(bench.records()) == 31


def test_a_restart_without_appends_writes_nothing_but_the_marker() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(batch(b"a"))
    bench.restart()
    names = bench.names()
    bench.restart()
    assert bench.names() == names
    assert bench.directory.was_closed_cleanly


SPEC = LogSpec(
    partition=PARTITION,
    topic_id=TOPIC_ID,
    leader_epoch=LeaderEpoch(EPOCH),
    config=LogConfig(segment_bytes=100),
)


def unreadable(executor: OnDemand) -> tuple[Bench, FakeDisk]:
    """A storage that could not read the files of its partition, and a disk that is well again."""
    disk = FakeDisk()
    bench = Bench(disk, config=SPEC.config)
    bench.append(*[batch(b"%d" % number) for number in range(5)])
    bench.close()
    bench.executor = executor
    bench.open()
    bench.run(bench.storage.release([PARTITION]))
    disk.suffer(Outage(Kind.OPEN, 1))
    assert isinstance(bench.run(bench.storage.open([SPEC]))[0], RefusedError)
    return bench, disk


def test_a_partition_that_could_not_be_read_is_recovered_in_a_thread_when_it_is_opened_again() -> None:
    executor = OnDemand()
    bench, disk = unreadable(executor)
    bench.storage._open_files._most = 3

    async def story() -> None:
        opening = asyncio.ensure_future(bench.storage.open([SPEC]))
        before = disk.counts.copy()
        await turn()
        assert disk.counts == before
        executor.work()
        (bench.log,) = await opening  # type: ignore[assignment]

    bench.run(story())
    assert bench.storage.log(PARTITION) is bench.log
    assert bench.values() == [b"%d" % number for number in range(5)]
    assert len(bench.storage._open_files) == 3


def test_a_partition_that_still_cannot_be_read_is_refused_again() -> None:
    executor = OnDemand()
    bench, disk = unreadable(executor)

    async def story() -> None:
        for _ in range(3):
            disk.suffer(Outage(Kind.OPEN, 1))
            opening = asyncio.ensure_future(bench.storage.open([SPEC]))
            await turn()
            executor.work()
            (refused,) = await opening
            assert isinstance(refused, RefusedError)
            assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR

    bench.run(story())
    assert bench.refuse(batch(b"a")).code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("end", ["destroy", "release", "close"])
def test_files_that_a_thread_recovers_stay_where_they_are_until_it_is_done(end: str) -> None:
    executor = OnDemand()
    bench, disk = unreadable(executor)
    storage = bench.storage

    async def story() -> None:
        opening = asyncio.ensure_future(storage.open([SPEC]))
        await turn()
        opening.cancel()  # as when the broker stops
        ends: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "destroy": lambda: storage.destroy(Topic(PARTITION.topic, TOPIC_ID, 1, {})),
            "release": lambda: storage.release([PARTITION]),
            "close": storage.close,
        }
        ending = asyncio.ensure_future(ends[end]())
        before = disk.counts.copy()
        await turn()
        assert disk.counts == before
        assert not ending.done()
        while not ending.done():
            executor.work()
            await turn()
        await ending

    bench.run(story())
    if end != "close":
        assert list(storage.logs()) == []
        assert bench.names() if end == "release" else not disk.entries(f"data/{PARTITION}")


def test_a_partition_that_is_deleted_before_its_turn_to_be_opened_again_is_left_alone() -> None:
    executor = OnDemand()
    bench, _ = unreadable(executor)

    async def story() -> None:
        async with bench.storage._opening_again:
            opening = asyncio.ensure_future(bench.storage.open([SPEC]))
            await turn()
            await bench.storage.destroy(Topic(PARTITION.topic, TOPIC_ID, 1, {}))
        (refused,) = await opening
        assert isinstance(refused, RefusedError)
        assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    bench.run(story())
    assert list(bench.storage.logs()) == []


def failed(executor: OnDemand) -> tuple[Bench, FakeDisk]:
    """A storage whose log has failed, and a disk that is well again."""
    disk = FakeDisk()
    bench = Bench(disk, config=SPEC.config)
    bench.append(*[batch(b"%d" % number) for number in range(5)])
    bench.close()
    bench.executor = executor
    bench.open()
    bench.append(batch(b"5"))
    bench.log.fail("a sync failed")
    return bench, disk


def test_a_log_that_failed_is_recovered_in_a_thread_and_answers_a_retriable_code_meanwhile() -> None:
    executor = OnDemand()
    bench, disk = failed(executor)
    bench.storage._open_files._most = 3
    old = bench.log

    async def story() -> None:
        opening = asyncio.ensure_future(bench.storage.reopen(PARTITION))
        await turn()
        before = disk.counts.copy()
        for use in (
            lambda: old.read(Offset(0), 1_000, limit=old.end_offset, at_least_one=True),
            lambda: old.readable_bytes(Offset(0), old.end_offset),
            lambda: old.drop_before(Offset(2)),
            lambda: old.append(append_of(batch(b"more"))),
        ):
            with pytest.raises(RefusedError) as refusal:
                use()
            assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        for search in (old.find_by_time(0, old.end_offset), old.max_timestamp(old.end_offset)):
            with pytest.raises(RefusedError) as refusal:
                await search
            assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert disk.counts == before
        old.reconfigure(LogConfig(segment_bytes=200))
        executor.work()
        while not opening.done():
            await turn()
            executor.work()
        bench.log = await opening

    bench.run(story())
    assert bench.storage.log(PARTITION) is bench.log
    assert bench.log.config.segment_bytes == 200
    assert bench.values() == [b"%d" % number for number in range(6)]
    assert len(bench.storage._open_files) == 3


def test_a_log_that_failed_can_be_read_between_two_attempts_to_recover_it() -> None:
    executor = OnDemand()
    bench, disk = failed(executor)

    async def story() -> None:
        disk.suffer(Outage(Kind.OPEN, 1))
        opening = asyncio.ensure_future(bench.storage.reopen(PARTITION))
        await turn()
        executor.work()
        with pytest.raises(RefusedError) as refusal:
            await opening
        assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    bench.run(story())
    assert bench.values() == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("end", ["destroy", "release", "close"])
def test_a_log_that_is_being_recovered_is_deleted_released_or_closed_when_the_thread_is_done(
    end: str,
) -> None:
    executor = OnDemand()
    bench, disk = failed(executor)
    storage = bench.storage

    async def story() -> None:
        opening = asyncio.ensure_future(storage.reopen(PARTITION))
        await turn()
        ends: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "destroy": lambda: storage.destroy(Topic(PARTITION.topic, TOPIC_ID, 1, {})),
            "release": lambda: storage.release([PARTITION]),
            "close": storage.close,
        }
        if end == "close":
            opening.cancel()  # as the broker does before
        ending = asyncio.ensure_future(ends[end]())
        before = disk.counts.copy()
        await turn()
        assert disk.counts == before
        assert not ending.done()
        while not (ending.done() and opening.done()):
            executor.work()
            await turn()
        await ending
        if end != "close":
            with pytest.raises(RefusedError) as refusal:
                await opening
            assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    bench.run(story())
    if end == "close":
        bench.open()
        assert bench.values() == [b"%d" % number for number in range(6)]
    else:
        assert list(storage.logs()) == []


def test_a_log_that_failed_is_not_synced_while_it_is_recovered() -> None:
    executor = OnDemand()
    bench, disk = failed(executor)

    async def story() -> None:
        bench.storage._flusher.later(bench.log)
        opening = asyncio.ensure_future(bench.storage.reopen(PARTITION))
        await turn()
        before = disk.counts.copy()
        bench.storage._flusher._interval_over()
        await turn()
        assert disk.counts == before
        while not opening.done():
            executor.work()
            await turn()
        bench.log = await opening

    bench.run(story())


class HookedDisk(FakeDisk):
    """Calls ``before_swap`` before a ``.swap`` file gets another name."""

    before_swap: Callable[[], None] | None = None

    def rename(self, old: str, new: str) -> None:
        hook, self.before_swap = (self.before_swap, None) if old.endswith(SWAP) else (None, self.before_swap)
        if hook is not None:
            hook()
        super().rename(old, new)


def to_compact(executor: OnDemand) -> tuple[Bench, HookedDisk]:
    disk = HookedDisk()
    bench = Bench(disk, config=replace(COMPACTED, segment_bytes=100))
    bench.append(*[batch(b"%d" % number, key=b"%d" % number) for number in range(5)])
    bench.close()
    bench.executor = executor
    bench.open()
    return bench, disk


async def compact_until_swap(bench: Bench, executor: OnDemand) -> tuple["asyncio.Future[None]", Work]:
    """A compaction that waits for the sync of its ``.swap`` files, and that sync."""
    compacting = asyncio.ensure_future(bench.storage.compact(PARTITION, WallTime(1_000_000)))
    await turn()
    while not any(name.endswith(SWAP) for name in bench.names()):
        assert executor.work()
        await turn()
    (sync,) = executor.waiting
    executor.waiting = []
    return compacting, sync


def test_a_log_that_fails_is_not_recovered_before_its_compaction_has_ended() -> None:
    executor = OnDemand()
    bench, disk = to_compact(executor)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        compacting, sync = await compact_until_swap(bench, executor)

        async def end_compaction() -> None:
            if not compacting.done():
                sync()
            await compacting

        bench.log.fail("a sync failed")
        reopening = asyncio.ensure_future(bench.storage.reopen(PARTITION))
        await turn()
        # A recovery that is under way already has removed the old segments when the compaction ends.
        disk.before_swap = lambda: asyncio.run_coroutine_threadsafe(end_compaction(), loop).result()
        recoveries, executor.waiting = executor.waiting, []
        for recovery in recoveries:
            await asyncio.to_thread(recovery)
        await end_compaction()
        while not reopening.done():
            await turn()
            executor.work()
        bench.log = await reopening

    bench.run(story())
    assert bench.values() == [b"%d" % number for number in range(5)]
    assert not [name for name in bench.names() if name.endswith(SWAP)]


@pytest.mark.parametrize("end", ["destroy", "release", "close"])
def test_a_log_is_deleted_released_or_closed_when_its_compaction_has_ended(end: str) -> None:
    executor = OnDemand()
    bench, _ = to_compact(executor)
    storage = bench.storage

    async def story() -> None:
        compacting, sync = await compact_until_swap(bench, executor)
        ends: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "destroy": lambda: storage.destroy(Topic(PARTITION.topic, TOPIC_ID, 1, {})),
            "release": lambda: storage.release([PARTITION]),
            "close": storage.close,
        }
        ending = asyncio.ensure_future(ends[end]())
        await turn()
        executor.work()
        await turn()
        assert not ending.done()
        executor.waiting.append(sync)
        while not ending.done():
            executor.work()
            await turn()
        assert compacting.done()
        await asyncio.gather(compacting, ending)

    bench.run(story())
    assert not [name for name in bench.names() if name.endswith(SWAP)]
    if end != "destroy":
        bench.die()
        bench.open()
        assert bench.values() == [b"%d" % number for number in range(5)]
