"""Segments are read again in the background; what is damaged is refused, the rest stays readable."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.unit.log.bench import COMPACTED, PARTITION, Bench, OnDemand, append_of, batch, turn

from kohort.log.files.maintenance import FileMaintenance
from kohort.log.files.repair import repair
from kohort.log.log import LogConfig, Repair, Upkeep
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset, WallTime
from kohort.testing.faults import FakeDisk

FIRST = f"data/{PARTITION}/00000000000000000000.log"
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def bench(disk: FakeDisk) -> Bench:
    """Twelve batches of one record each; the first segment holds 0 to 4."""
    bench = Bench(disk, config=SMALL)
    bench.append(*[batch(b"%d" % number) for number in range(12)])
    return bench


def flip(disk: FakeDisk, offset: int) -> None:
    file = disk.open(FIRST)
    position = offset * (file.size() // 5) + 68
    file.write(bytes([file.read(1, position)[0] ^ 1]), position)


def scrub(bench: Bench) -> tuple[list[Repair], int]:
    rested = 0

    async def rest(size: int) -> None:
        nonlocal rested
        rested += size

    return bench.run(found_by(bench, rest)), rested


async def found_by(bench: Bench, rest: Callable[[int], Awaitable[None]]) -> list[Repair]:
    return [found async for found in bench.storage.scrub(PARTITION, rest)]


def test_what_is_intact_is_read_once_and_nothing_is_said(bench: Bench, disk: FakeDisk) -> None:
    assert len(bench.log.segments()) == 3
    assert scrub(bench) == ([], bench.log.size_bytes)


def test_damage_in_the_segment_that_grows_is_found_and_appends_go_on(bench: Bench, disk: FakeDisk) -> None:
    *_, active = bench.log.segments()
    file = disk.open(f"{active.path}.log")
    assert (active.base_offset, file.size()) == (10, 142)
    file.write(bytes([file.read(1, 68)[0] ^ 1]), 68)
    ((found,), _) = scrub(bench)
    assert found.what.startswith("bytes 0 to 71:")
    bench.append(batch(b"12"))
    with pytest.raises(RefusedError) as refused:
        bench.log.read(Offset(10), 10_000, limit=Offset(13), at_least_one=True)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert [record.offset for record in bench.records(11)] == [11, 12]
    assert scrub(bench)[0] == []


def test_what_is_appended_while_the_last_segment_is_read_is_no_damage(bench: Bench, disk: FakeDisk) -> None:
    async def rest(_: int) -> None:
        await bench.storage.append([append_of(batch(b"more"))])

    assert bench.run(found_by(bench, rest)) == []
    assert scrub(bench)[0] == []


def test_a_wrong_byte_is_said_once(bench: Bench, disk: FakeDisk) -> None:
    flip(disk, 2)
    ((found,), _) = scrub(bench)
    assert found.directory == FIRST
    assert found.what.startswith("bytes 140 to 210:")
    assert "the checksum says" in found.what
    assert scrub(bench)[0] == []


def test_a_fetch_of_damage_is_corrupt_message_and_everything_around_it_is_readable(
    bench: Bench, disk: FakeDisk
) -> None:
    flip(disk, 2)
    scrub(bench)
    piece = bench.log.read(Offset(0), 10_000, limit=Offset(12), at_least_one=True)
    assert (piece.size, piece.next_offset) == (140, 2)
    with pytest.raises(RefusedError) as refused:
        bench.log.read(Offset(2), 10_000, limit=Offset(12), at_least_one=True)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert [record.offset for record in bench.records(3)] == list(range(3, 12))


def test_a_header_that_makes_no_sense_is_corrupt_message_without_a_scrubber(
    bench: Bench, disk: FakeDisk
) -> None:
    disk.open(FIRST).write(bytes(60), 0)
    with pytest.raises(RefusedError) as refused:
        bench.log.read(Offset(0), 10_000, limit=Offset(12), at_least_one=True)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_search_by_time_that_meets_damage_is_corrupt_message(bench: Bench, disk: FakeDisk) -> None:
    disk.open(FIRST).write(bytes(60), 0)
    with pytest.raises(RefusedError) as refused:
        bench.run(bench.log.find_by_time(0, Offset(12)))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_an_index_with_wrong_entries_is_made_again_by_the_first_read(bench: Bench, disk: FakeDisk) -> None:
    bench.close()
    index = disk.open(FIRST.replace(".log", ".index"))
    good = index.read(index.size(), 0)
    for position in range(len(good)):
        for bit in (0, 4):
            damaged = bytearray(good)
            damaged[position] ^= 1 << bit
            index.write(bytes(damaged), 0)
            bench.open()
            assert [record.offset for record in bench.records()] == list(range(12)), position
            bench.close()


def test_a_lost_index_and_damage_behind_it_hide_no_records(bench: Bench, disk: FakeDisk) -> None:
    bench.close()
    disk.remove(FIRST.replace(".log", ".index"))
    disk.open(FIRST).write(bytes(60), 140)
    disk.open("data/kohort.inventory").truncate(0)
    bench.open()
    assert [record.offset for record in bench.records()] == [0, 1, *range(3, 12)]


def test_a_segment_that_went_meanwhile_is_passed_over(bench: Bench, disk: FakeDisk) -> None:
    flip(disk, 2)
    disk.remove(FIRST)
    assert scrub(bench)[0] == []


def test_compaction_leaves_a_damaged_log_as_it_is(disk: FakeDisk) -> None:
    bench = Bench(disk, config=COMPACTED)
    bench.log.reconfigure(
        LogConfig(segment_bytes=400, cleanup=COMPACTED.cleanup, min_cleanable_dirty_ratio=0)
    )
    bench.append(*[batch(b"%d" % number) for number in range(12)])
    flip(disk, 2)
    with pytest.raises(RefusedError) as refused:
        bench.compact(10**9)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert disk.open(FIRST).size() == 350


def test_compaction_does_not_believe_an_offset_that_does_not_fit(disk: FakeDisk) -> None:
    bench = Bench(disk, config=replace(COMPACTED, segment_bytes=400, min_cleanable_dirty_ratio=0))
    bench.append(*[batch(b"%d" % number, key=b"k") for number in range(12)])
    file = disk.open(FIRST)
    position = file.size() // 5 * 2  # no checksum covers the first eight bytes of a batch
    file.write((2 + (1 << 20)).to_bytes(8, "big"), position)
    with pytest.raises(RefusedError) as refused:
        bench.compact(10**9)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert [record.value for record in bench.records(11)] == [b"11"]


def test_a_repair_puts_no_batch_behind_the_end_because_its_offset_is_wrong(disk: FakeDisk) -> None:
    bench = Bench(disk, config=LogConfig(segment_bytes=100))
    bench.append(*[batch(b"%d" % number) for number in range(5)])
    bench.close()
    disk.open(FIRST).write((64).to_bytes(8, "big"), 0)
    repair(disk, "data")
    bench.open()
    assert [record.offset for record in bench.records(1)] == [1, 2, 3, 4]
    assert bench.log.end_offset == 5


async def check_retention(bench: Bench, now: WallTime) -> None:
    async def pause(_: int) -> None: ...

    upkeep = Upkeep(lambda: now, pause, lambda _: 86_400_000)
    await FileMaintenance(bench.storage, upkeep, lambda: pause(0))._retain_one(bench.log)


def retain(bench: Bench, now: WallTime) -> int:
    """Check the retention of the log; how many segments are left."""
    bench.run(check_retention(bench, now))
    return len(bench.log.segments())


def test_a_damaged_time_index_makes_no_records_too_old(
    disk: FakeDisk, caplog: pytest.LogCaptureFixture
) -> None:
    now = WallTime(1_700_000_000_000)
    bench = Bench(disk, config=replace(SMALL, retention_ms=1_000))
    bench.append(*[batch(b"%d" % number, at=now) for number in range(12)])
    bench.close()
    path = FIRST.replace(".log", ".timeindex")
    index = disk.open(path)
    for entry in range(0, index.size(), 12):
        index.write((1_000 + entry).to_bytes(8, "big"), entry)
    bench.open()
    assert len(bench.log.seem_too_old(now)) == 1
    assert retain(bench, now) == 3
    assert caplog.messages == [f"{PARTITION}: {path} is damaged: retention goes by the records themselves"]
    assert retain(bench, WallTime(now + 1_001)) == 1
    assert bench.log.start_offset == 12


@pytest.mark.parametrize("begins", ["before the append", "after the append"])
def test_a_record_that_is_appended_while_its_old_segment_is_read_stays(
    disk: FakeDisk, caplog: pytest.LogCaptureFixture, begins: str
) -> None:
    now = WallTime(1_700_000_000_000)
    bench = Bench(disk, config=LogConfig(retention_ms=1_000))
    bench.append(*[batch(b"%d" % number, at=now - 5_000) for number in range(3)])
    bench.close()
    executor = bench.executor = OnDemand()
    bench.open()

    async def story() -> None:
        checking = asyncio.ensure_future(check_retention(bench, now))
        await turn()
        if begins == "before the append":
            assert executor.work() == 1
        await bench.storage.append([append_of(batch(b"new", at=now), now=now)])
        executor.work()
        await checking

    bench.run(story())
    assert bench.values() == [b"0", b"1", b"2", b"new"]
    assert caplog.messages == []
    assert retain(bench, WallTime(now + 1_001)) == 1
    assert bench.values() == []


def test_an_old_record_that_comes_meanwhile_does_not_hide_that_the_time_index_is_wrong(
    disk: FakeDisk,
) -> None:
    now = WallTime(1_700_000_000_000)
    bench = Bench(disk, config=LogConfig(retention_ms=1_000))
    bench.append(batch(b"young", at=now))
    bench.close()
    disk.open(FIRST.replace(".log", ".timeindex")).write((1_000).to_bytes(8, "big"), 0)
    executor = bench.executor = OnDemand()
    bench.open()

    async def story() -> None:
        checking = asyncio.ensure_future(check_retention(bench, now))
        await turn()
        await bench.storage.append([append_of(batch(b"old", at=2_000), now=now)])
        assert executor.work() == 1
        await checking

    bench.run(story())
    assert bench.values() == [b"young", b"old"]


def test_segments_that_go_for_their_size_or_lie_below_the_start_are_not_read(disk: FakeDisk) -> None:
    now = WallTime(1_700_000_000_000)
    config = replace(SMALL, segment_bytes=100, retention_ms=1_000)
    bench = Bench(disk, config=config)
    bench.append(*[batch(b"%d" % number) for number in range(6)])
    bench.restart()
    first, *others = bench.log.segments()
    assert bench.log.seem_too_old(now) == [first, *others]
    bench.log.reconfigure(replace(config, retention_bytes=2 * first.size))
    assert bench.log.seem_too_old(now) == others[-2:]
    bench.log.reconfigure(config)
    bench.log._move_start(others[1].base_offset)
    assert bench.log.seem_too_old(now) == others[1:]
