"""Writes and syncs fail: what is refused, what fails, and how a log comes back."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from errno import EIO, ENOSPC

import pytest
from tests.unit.log.bench import (
    COMPACTED,
    PARTITION,
    Bench,
    OnDemand,
    append_of,
    batch,
    code_of,
    committing,
    numbered,
)

from kohort.log.log import SyncPolicy
from kohort.log.producers import ProducerRoom, Producers
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import WallTime
from kohort.testing.faults import FakeDisk, Fault, FaultyExecutor, Kind, Outage


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
    assert bench.storage.reports() == []


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


@pytest.mark.parametrize("number", [1, 2, 3])  # the metadata, the batches, the directory
def test_a_reopened_log_keeps_what_was_written_where_that_was_enough_and_writes_it_again(number: int) -> None:
    disk = FakeDisk()
    bench = Bench(disk, policy=SyncPolicy.INTERVAL)
    bench.append(batch(b"a"), batch(b"b"))
    disk.fail(syncs=[Fault(number)])
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


def test_a_log_that_is_reopened_in_a_thread_counts_its_producers_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Room for them is made by taking producers away from other logs, which the loop uses meanwhile."""
    counted: list[int] = []

    class NotedRoom(ProducerRoom):
        """Notes which thread counts producers."""

        def add(self, producers: Producers) -> None:
            counted.append(threading.get_ident())
            super().add(producers)

    monkeypatch.setattr("kohort.log.files.storage.ProducerRoom", NotedRoom)
    disk = FakeDisk()
    bench = Bench(disk, executor=ThreadPoolExecutor(1), policy=SyncPolicy.COMMIT)
    bench.append(numbered(0))
    disk.fail(syncs=[Fault(1)])
    bench.refuse(numbered(1))
    bench.run(bench.storage.reopen(PARTITION))
    assert counted == [threading.get_ident()] * 2


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


def test_a_log_whose_file_cannot_be_opened_to_be_synced_fails() -> None:
    executor = OnDemand()
    disk = FakeDisk()
    bench = committing(disk, executor)

    async def story() -> None:
        future = bench.storage.append([append_of(batch(b"a"))])
        active = bench.log._active
        assert active is not None
        active.close()
        disk.remove(f"data/{PARTITION}/{0:020d}.log")
        (result,) = await future
        assert code_of(result) is ErrorCode.KAFKA_STORAGE_ERROR

    bench.run(story())
    assert "could not be opened" in (bench.log.failure or "")
    assert bench.advanced == [PARTITION]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a bug")])
def test_whatever_comes_out_of_a_sync_refuses_the_append_and_fails_the_log(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FakeDisk()
    bench = committing(disk)
    bench.append(batch(b"a"))
    with monkeypatch.context() as patch:

        def broken(_: object) -> None:
            raise error

        patch.setattr(disk, "sync", broken)
        assert bench.refuse(batch(b"b")).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.log.failure is not None
    bench.log = bench.run(bench.storage.reopen(PARTITION))
    bench.append(batch(b"c"))
    assert bench.values() == [b"a", b"c"]


@pytest.mark.parametrize("kind", [Kind.THREAD, Kind.MEMORY])
def test_a_sync_that_no_thread_does_refuses_the_append_and_fails_the_log(kind: Kind) -> None:
    executor = FaultyExecutor()
    bench = committing(FakeDisk(), executor)
    bench.append(batch(b"a"))
    executor.suffer(Outage(kind, 1))
    assert bench.refuse(batch(b"b")).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.log.failure is not None
    assert bench.log.high_watermark == 1
    bench.log = bench.run(bench.storage.reopen(PARTITION))
    bench.append(batch(b"c"))
    assert bench.values() == [b"a", b"c"]


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
