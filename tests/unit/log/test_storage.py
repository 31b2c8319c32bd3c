"""Group commit, failed disks, checkpoints, deletion: the storage of a node."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from errno import EIO, ENOSPC
from typing import ParamSpec, TypeVar

import pytest
from tests.unit.log.bench import (
    COMPACTED,
    EPOCH,
    OTHER,
    PARTITION,
    Bench,
    append_of,
    batch,
    numbered,
    records_of,
)

from kohort.log.directory import ForeignDirectoryError
from kohort.log.log import Appended, LogConfig, LogSpec, SyncPolicy
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset, TopicId, WallTime
from kohort.testing.faults import FakeDisk, Fault, PowerLossError

P = ParamSpec("P")
T = TypeVar("T")


class OnDemand(Executor):
    """Keeps what is submitted until ``work`` is called: a disk that takes its time."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # belongs to whoever looks at the future
                future.set_exception(error)

        self.waiting.append(run)
        return future

    def work(self) -> int:
        """Do everything that waits; how much that was."""
        waiting, self.waiting = self.waiting, []
        for run in waiting:
            run()
        return len(waiting)


async def turn() -> None:
    """Let the loop do what is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


def committing(disk: FakeDisk, executor: Executor | None = None, config: LogConfig | None = None) -> Bench:
    return Bench(disk, policy=SyncPolicy.COMMIT, executor=executor, config=config)


def code_of(result: Appended | RefusedError) -> ErrorCode | None:
    return result.code if isinstance(result, RefusedError) else None


# -- group commit ------------------------------------------------------------------------------------------


def test_an_append_that_needs_no_sync_is_answered_at_once() -> None:
    bench = Bench(FakeDisk())

    async def story() -> bool:
        return bench.storage.append([append_of(batch(b"a"))]).done()

    assert bench.run(story())


def test_a_committed_append_is_answered_and_visible_when_it_is_synced() -> None:
    executor = OnDemand()
    bench = committing(FakeDisk(), executor)

    async def story() -> None:
        future = bench.storage.append([append_of(batch(b"a"))])
        await turn()
        assert not future.done()
        assert (bench.log.end_offset, bench.log.high_watermark) == (1, 0)
        assert bench.advanced == []
        executor.work()
        (result,) = await future
        assert isinstance(result, Appended)
        assert bench.log.high_watermark == 1
        assert bench.advanced == [PARTITION]

    bench.run(story())


def test_what_gathers_during_a_sync_shares_the_next_one() -> None:
    executor = OnDemand()
    disk = FakeDisk()
    bench = committing(disk, executor)

    async def story() -> None:
        first = bench.storage.append([append_of(batch(b"0"))])
        await turn()
        others = [bench.storage.append([append_of(batch(b"%d" % number))]) for number in range(1, 20)]
        await turn()
        assert executor.work() == 1
        await turn()
        assert first.done()
        assert not any(other.done() for other in others)
        syncs = disk.syncs
        assert executor.work() == 1
        await asyncio.gather(*others)
        assert disk.syncs == syncs + 1
        assert bench.log.high_watermark == 20

    bench.run(story())


def test_several_logs_are_synced_side_by_side() -> None:
    executor = OnDemand()
    bench = committing(FakeDisk(), executor)
    bench.open_log(OTHER)

    async def story() -> None:
        future = bench.storage.append([append_of(batch(b"a")), append_of(batch(b"b"), OTHER)])
        await turn()
        assert executor.work() == 2
        assert [code_of(result) for result in await future] == [None, None]

    bench.run(story())
    assert set(bench.advanced) == {PARTITION, OTHER}


def test_a_reader_sees_only_what_is_synced() -> None:
    executor = OnDemand()
    bench = committing(FakeDisk(), executor)

    async def story() -> None:
        first = bench.storage.append([append_of(batch(b"safe"))])
        await turn()
        executor.work()
        await first
        second = bench.storage.append([append_of(batch(b"not yet"))])
        log = bench.log
        seen = records_of(log, Offset(0), log.high_watermark)
        assert [record.value for record in seen] == [b"safe"]
        assert log.readable_bytes(Offset(0), log.high_watermark) == len(batch(b"safe"))
        assert log.readable_bytes(Offset(1), log.high_watermark) == 0
        await turn()
        executor.work()
        await second

    bench.run(story())


def test_a_repetition_waits_until_the_original_is_safe() -> None:
    executor = OnDemand()
    bench = committing(FakeDisk(), executor)

    async def story() -> None:
        original = bench.storage.append([append_of(numbered(0))])
        repetition = bench.storage.append([append_of(numbered(0))])
        await turn()
        assert not repetition.done()
        executor.work()
        await original
        (result,) = await repetition
        assert isinstance(result, Appended)
        assert result.duplicate
        assert bench.storage.append([append_of(numbered(0))]).done()

    bench.run(story())


def test_an_answer_nobody_waits_for_any_more_does_no_harm() -> None:
    executor = OnDemand()
    bench = committing(FakeDisk(), executor)

    async def story() -> None:
        bench.storage.append([append_of(batch(b"a"))]).cancel()
        await turn()
        executor.work()
        await turn()

    bench.run(story())
    assert bench.log.high_watermark == 1


def test_by_interval_a_log_is_synced_in_the_background() -> None:
    bench = Bench(FakeDisk(), policy=SyncPolicy.INTERVAL)
    bench.append(batch(b"a"))
    bench.append(batch(b"b"))
    assert (bench.log.high_watermark, bench.log.recovery_point) == (2, 0)
    timer = bench.storage._flusher._timer
    assert timer is not None
    timer.cancel()
    bench.storage._flusher._timer = None

    async def time_passes() -> None:
        bench.storage._flusher._interval_over()
        await turn()

    bench.run(time_passes())
    assert bench.log.recovery_point == 2
    bench.close()


def test_threads_are_used_and_made_only_when_needed() -> None:
    bench = Bench(FakeDisk())
    flusher = bench.storage._flusher
    flusher._executor = None
    bench.append(batch(b"a"))
    assert vars(flusher)["_executor"] is None
    bench.run(bench.storage.flush())
    assert vars(flusher)["_executor"] is not None
    bench.close()


# -- disks that fail ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", list(SyncPolicy))
@pytest.mark.parametrize("fault", [Fault(1, EIO), Fault(1, ENOSPC, written=40), Fault(1, 0, written=40)])
def test_a_failed_write_is_refused_and_leaves_the_log_as_it_was(policy: SyncPolicy, fault: Fault) -> None:
    disk = FakeDisk()
    bench = Bench(disk, policy=policy)
    bench.append(batch(b"a"))
    disk.fail(writes=[fault])
    assert bench.refuse(batch(b"lost")).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.log.failure is None
    bench.append(batch(b"b"))
    assert bench.values() == [b"a", b"b"]
    bench.die()
    bench.open()
    assert bench.values() == [b"a", b"b"]
    assert bench.storage.take_repairs() == []


def test_a_refused_batch_may_be_sent_again_with_its_sequence() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(numbered(0))
    disk.fail(writes=[Fault(1, ENOSPC)])
    bench.refuse(numbered(1))
    (done,) = bench.append(numbered(1))
    assert (done.base_offset, done.duplicate) == (1, False)


def test_a_write_that_cannot_be_cut_back_fails_the_log() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(batch(b"a"))
    segment = bench.log._active
    assert segment is not None

    class Broken:
        """A file that takes nothing and gives nothing."""

        def write(self, content: bytes, position: int) -> int:
            raise OSError(EIO, "bad")

        def truncate(self, size: int) -> None:
            raise OSError(EIO, "bad")

    segment._file = Broken()  # type: ignore[assignment]  # only what is called here
    bench.refuse(batch(b"b"))
    assert bench.log.failure is not None
    assert bench.refuse(batch(b"c")).code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("policy", [SyncPolicy.COMMIT, SyncPolicy.INTERVAL])
def test_after_a_failed_sync_the_log_refuses_everything(policy: SyncPolicy) -> None:
    disk = FakeDisk()
    bench = Bench(disk, policy=policy)
    bench.append(batch(b"safe"))
    bench.run(bench.storage.flush())
    disk.fail(syncs=[Fault(1)])
    (result,) = bench.try_append([append_of(batch(b"lost under commit"))])
    bench.run(bench.storage.flush())
    expected = ErrorCode.KAFKA_STORAGE_ERROR if policy is SyncPolicy.COMMIT else None
    assert code_of(result) is expected
    syncs = disk.syncs
    assert bench.refuse(batch(b"refused")).code is ErrorCode.KAFKA_STORAGE_ERROR
    bench.run(bench.storage.flush())
    assert disk.syncs == syncs  # never tried again
    assert bench.log.failure is not None
    assert bench.log.apply_retention(WallTime(10**12)) == 0


def test_a_reopened_log_has_exactly_what_was_acknowledged_under_commit() -> None:
    disk = FakeDisk()
    bench = committing(disk)
    bench.append(numbered(0))
    disk.fail(syncs=[Fault(1)])
    bench.refuse(numbered(1))
    log = bench.run(bench.storage.reopen(PARTITION))
    bench.log = log
    assert (log.failure, log.end_offset, log.high_watermark) == (None, 1, 1)
    assert bench.storage.log(PARTITION) is log
    (again,) = bench.append(numbered(1))
    assert (again.base_offset, again.duplicate) == (1, False)
    disk.crash()
    bench.open()
    assert len(bench.records()) == 2


def test_a_reopened_log_keeps_what_was_written_where_that_was_enough_and_syncs_it_anew() -> None:
    disk = FakeDisk()
    bench = Bench(disk, policy=SyncPolicy.INTERVAL)
    bench.append(batch(b"a"), batch(b"b"))
    disk.fail(syncs=[Fault(1)])
    bench.run(bench.storage.flush())
    assert bench.log.failure is not None
    writes = disk.writes
    bench.log = bench.run(bench.storage.reopen(PARTITION))
    assert disk.writes > writes
    assert bench.values() == [b"a", b"b"]
    assert bench.log.recovery_point == 2
    disk.crash()
    bench.open()
    assert bench.values() == [b"a", b"b"]


def test_a_log_that_cannot_be_reopened_stays_failed() -> None:
    disk = FakeDisk()
    bench = committing(disk)
    bench.append(batch(b"a"))
    disk.fail(syncs=[Fault(1), Fault(2), Fault(3)])
    bench.refuse(batch(b"b"))
    with pytest.raises(RefusedError) as refusal:
        bench.run(bench.storage.reopen(PARTITION))
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.storage.log(PARTITION).failure is not None


def test_a_shutdown_with_a_failed_log_is_not_a_clean_one() -> None:
    disk = FakeDisk()
    bench = committing(disk)
    bench.append(batch(b"a"))
    disk.fail(syncs=[Fault(1)])
    bench.refuse(batch(b"b"))
    bench.close()
    bench.open()
    assert not bench.directory.was_closed_cleanly
    assert len(bench.records()) >= 1


def test_a_shutdown_on_a_full_disk_is_not_a_clean_one() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(batch(b"a"))
    disk.capacity = disk.used()
    bench.close()
    disk.capacity = None
    bench.open()
    assert not bench.directory.was_closed_cleanly
    assert bench.values() == [b"a"]


def test_a_bug_while_syncing_reaches_whoever_waits() -> None:
    disk = FakeDisk()
    bench = committing(disk)
    bench.append(batch(b"a"))
    disk.power_off_at = disk.operations + 2
    with pytest.raises(PowerLossError):
        bench.append(batch(b"b"))
    assert bench.log.failure is not None


def test_compaction_on_a_full_disk_leaves_the_log_as_it_was() -> None:
    disk = FakeDisk()
    bench = Bench(disk, config=replace(COMPACTED, segment_bytes=300))
    bench.append(*[batch(b"v", key=b"%d" % (number // 2)) for number in range(12)])
    disk.capacity = disk.used()
    with pytest.raises(RefusedError) as refusal:
        bench.compact(10**9)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(bench.records()) == 12
    assert bench.log.failure is None
    disk.capacity = None
    bench.compact(10**9)
    assert len(bench.records()) < 12


def test_a_checkpoint_that_cannot_be_written_is_told() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    disk.capacity = disk.used()
    with pytest.raises(RefusedError):
        bench.run(bench.storage.checkpoint())


# -- logs --------------------------------------------------------------------------------------------------


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
    with pytest.raises(ForeignDirectoryError, match="move it out"):
        bench.storage.open_log(spec)


def test_a_directory_that_lost_its_topic_id_is_taken_over_and_told() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.append(batch(b"a"))
    bench.close()
    disk.open(f"data/{PARTITION}/partition.metadata").truncate(3)
    bench.open()
    assert "did not say to which topic it belongs" in bench.storage.take_repairs()[0].what
    assert bench.values() == [b"a"]
    bench.restart()
    assert bench.storage.take_repairs() == []


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
