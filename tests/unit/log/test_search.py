"""Finding records by time."""

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.log.bench import PARTITION, Bench, OnDemand, batch, found, turn
from tests.unit.log.conftest import MakeBench

from kohort.log.log import LogConfig, TimedOffset
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset
from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.compression import Codec
from kohort.records.produced import AT_ONCE_BYTES, AT_ONCE_RECORDS

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=80)
END = Offset(1_000)


def find(bench: Bench, timestamp: int, limit: Offset = END) -> tuple[int, int] | None:
    record = found(bench.log.find_by_time(timestamp, limit))
    return None if record is None else (record.offset, record.timestamp)


def youngest(bench: Bench, limit: Offset = END) -> tuple[int, int] | None:
    record = found(bench.log.max_timestamp(limit))
    return None if record is None else (record.offset, record.timestamp)


def test_an_empty_log_has_no_records_at_any_time(bench: Bench) -> None:
    assert find(bench, 0) is None
    assert youngest(bench) is None


def test_the_first_record_not_older_is_found_inside_its_batch(bench: Bench) -> None:
    bench.append(batch(b"a", b"b", b"c", at=1_000), batch(b"d", at=2_000))
    assert find(bench, 0) == (0, 1_000)
    assert find(bench, 1_001) == (1, 1_001)
    assert find(bench, 1_003) == (3, 2_000)
    assert find(bench, 2_001) is None
    assert found(bench.log.find_by_time(1_001, END)) == (1, 1_001, 1)


def test_a_compressed_batch_is_searched_too(bench: Bench) -> None:
    bench.append(batch(b"a", b"b", b"c", at=1_000, codec=Codec.ZSTD))
    assert find(bench, 1_002) == (2, 1_002)


@pytest.mark.parametrize("restart", [False, True])
def test_times_are_found_in_any_segment_also_after_a_restart(make_bench: MakeBench, restart: bool) -> None:
    bench = make_bench(config=SMALL)
    bench.append(*[batch(b"v", at=1_000 + 10 * number) for number in range(40)])
    if restart:
        bench.restart()
    for number in range(40):
        assert find(bench, 1_000 + 10 * number) == (number, 1_000 + 10 * number)
        assert find(bench, 996 + 10 * number) == (number, 1_000 + 10 * number)
    assert youngest(bench) == (39, 1_390)


def test_the_first_by_offset_counts_when_times_are_out_of_order(make_bench: MakeBench) -> None:
    bench = make_bench(config=SMALL)
    for at in (5_000, 1_000, 9_000, 2_000, 9_000, 3_000, 8_000, 100, 8_500, 9_000):
        bench.append(batch(b"v", at=at))
    assert find(bench, 4_000) == (0, 5_000)
    assert find(bench, 6_000) == (2, 9_000)
    assert youngest(bench) == (2, 9_000)


def test_deleted_records_are_not_found(make_bench: MakeBench) -> None:
    bench = make_bench(config=LogConfig())
    bench.append(batch(b"a", b"b", at=9_000), batch(b"c", at=1_000), batch(b"d", b"e", at=2_000))
    bench.log.drop_before(Offset(1))
    assert find(bench, 8_000) == (1, 9_001)
    assert youngest(bench) == (1, 9_001)
    bench.log.drop_before(Offset(2))
    assert find(bench, 8_000) is None
    assert youngest(bench) == (4, 2_001)
    bench.log.drop_before(Offset(5))
    assert youngest(bench) is None


def test_records_beyond_the_limit_are_not_found(make_bench: MakeBench) -> None:
    bench = make_bench(config=SMALL)
    bench.append(*[batch(b"v", at=1_000 + number) for number in range(20)])
    assert find(bench, 1_010, Offset(10)) is None
    assert find(bench, 1_010, Offset(11)) == (10, 1_010)
    assert youngest(bench, Offset(19)) is None


# Batches that take long to look at

LARGE = AT_ONCE_RECORDS + 1


def large(at: int, codec: Codec = Codec.NONE) -> bytes:
    """So many records, a millisecond apart."""
    return batch(*[b""] * LARGE, at=at, codec=codec)


@pytest.mark.parametrize(
    "content",
    [large(1_000), batch(bytes(AT_ONCE_BYTES), at=1_000, codec=Codec.ZSTD)],
    ids=["many records", "many bytes"],
)
def test_a_batch_that_takes_long_is_looked_at_in_a_thread(
    bench: Bench, content: bytes, thread: OnDemand
) -> None:
    bench.append(content)
    limit = bench.log.high_watermark
    assert interrupted(bench, thread, 500, limit) == (0, 1_000, 1)


@pytest.fixture
def thread(bench: Bench) -> OnDemand:
    """The thread that looks into large batches."""
    executor = OnDemand()
    bench.storage._searches = executor
    return executor


def interrupted(
    bench: Bench,
    thread: OnDemand,
    timestamp: int,
    limit: Offset,
    meanwhile: Callable[[], object] = lambda: None,
) -> TimedOffset | None:
    """A search during whose first look something else happens."""

    async def search() -> TimedOffset | None:
        searching = asyncio.ensure_future(bench.log.find_by_time(timestamp, limit))
        await turn()
        assert not searching.done()
        meanwhile()
        assert thread.work() == 1
        return await searching

    return bench.run(search())


def test_what_such_a_look_finds_is_found(bench: Bench) -> None:
    bench.append(large(1_000), large(50_000))
    limit = Offset(2 * LARGE)
    assert find(bench, 1_007, limit) == (7, 1_007)
    assert find(bench, 50_001, limit) == (LARGE + 1, 50_001)
    assert youngest(bench, limit) == (2 * LARGE - 1, 50_000 + LARGE - 1)
    assert youngest(bench, Offset(LARGE)) is None


def test_the_search_goes_on_when_the_youngest_records_of_a_batch_are_deleted(bench: Bench) -> None:
    backwards = [NewRecord(90_000 - number, b"k", b"") for number in range(LARGE)]
    bench.append(build_batch(backwards), large(85_000))
    bench.log.drop_before(Offset(LARGE - 1))
    limit = Offset(2 * LARGE)
    assert find(bench, 85_000, limit) == (LARGE, 85_000)
    assert youngest(bench, limit) == (2 * LARGE - 1, 85_000 + LARGE - 1)


def test_segments_may_go_while_somebody_looks(make_bench: MakeBench) -> None:
    bench = make_bench(config=LogConfig(segment_bytes=100_000))
    thread = bench.storage._searches = OnDemand()
    backwards = [NewRecord(90_000 - number, b"k", b"") for number in range(LARGE)]
    first = build_batch(backwards, BatchFields(codec=Codec.ZSTD))
    bench.append(first, *[batch(bytes(90_000), at=95_000 + number) for number in range(3)])
    bench.log.drop_before(Offset(2))  # and with them the youngest records of the batch that is looked at
    found = interrupted(
        bench, thread, 89_999, Offset(LARGE + 3), lambda: bench.log.drop_before(Offset(LARGE + 1))
    )
    assert found == (LARGE + 1, 95_001, 1)


def test_a_log_that_is_deleted_while_somebody_looks_is_not_searched_any_further(
    bench: Bench, thread: OnDemand
) -> None:
    bench.append(large(1_000))
    with pytest.raises(RefusedError) as refused:
        interrupted(bench, thread, 500, Offset(LARGE), lambda: bench.storage.delete_log(PARTITION))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
