"""Group commit: who is answered when."""

import asyncio

from tests.unit.log.bench import (
    OTHER,
    PARTITION,
    Bench,
    OnDemand,
    append_of,
    batch,
    code_of,
    committing,
    numbered,
    records_of,
    turn,
)

from kohort.log.log import Appended, SyncPolicy
from kohort.model.ids import Offset
from kohort.testing.faults import FakeDisk


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
