"""What a log in files does beyond the contract of every log: segments, the epochs of leaders, truncation."""

from tests.unit.log.bench import OTHER, Bench, append_of, batch, numbered
from tests.unit.log.conftest import MakeBench

from kohort.log.log import Log, LogConfig, Storage
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset, WallTime

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


def test_the_storage_and_its_logs_are_what_the_protocols_ask_for(bench: Bench) -> None:
    storage: Storage = bench.storage
    log: Log = bench.log
    assert bench.storage.log(log.partition) is log
    assert list(storage.reports()) == []


def test_a_new_log_is_empty_and_has_no_files(bench: Bench) -> None:
    log = bench.log
    assert (log.start_offset, log.end_offset, log.high_watermark, log.size_bytes) == (0, 0, 0, 0)
    assert log.read(Offset(0), 100, limit=Offset(0), at_least_one=True) == ([], 0, 0)
    assert bench.names() == []


def test_a_closed_segment_has_indexes_and_the_next_one_a_snapshot(make_bench: MakeBench) -> None:
    bench = make_bench(config=SMALL)
    bench.append(*[batch(b"x") for _ in range(6)])
    assert {"00000000000000000000.index", "00000000000000000000.timeindex"} <= set(bench.names())
    closed = [name for name in bench.names() if name.endswith(".log")][1].removesuffix(".log")
    assert f"{closed}.snapshot" in bench.names()


def test_a_batch_larger_than_a_segment_is_refused(make_bench: MakeBench) -> None:
    bench = make_bench(config=SMALL)
    assert bench.refuse(batch(b"x" * 400)).code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert bench.log.end_offset == 0


def test_an_unknown_partition_is_refused_beside_one_that_is_known(bench: Bench) -> None:
    unknown = append_of(batch(b"x"), OTHER)
    known = append_of(batch(b"y"))
    refusal, done = bench.try_append([unknown, known])
    assert isinstance(refusal, RefusedError)
    assert refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not isinstance(done, RefusedError)


def test_what_the_broker_itself_appends_has_no_sequence_to_check(bench: Bench) -> None:
    bench.append(numbered(0))
    (done,) = bench.try_append([append_of(numbered(9))._replace(from_client=False)])
    assert not isinstance(done, RefusedError)


def test_a_silent_producer_is_forgotten(bench: Bench) -> None:
    bench.append(numbered(0))
    bench.log.expire_producers(WallTime(90_000), after_ms=80_000)
    (done,) = bench.append(numbered(41))
    assert not done.duplicate


def test_readable_bytes_are_positive_exactly_when_there_is_something(make_bench: MakeBench) -> None:
    bench = make_bench(config=SMALL)
    bench.append(*[batch(b"%d" % number) for number in range(12)])
    log = bench.log
    for offset in range(13):
        for limit in range(13):
            estimate = log.readable_bytes(Offset(offset), Offset(limit))
            assert (estimate > 0) == (offset < limit)
    assert log.readable_bytes(Offset(0), Offset(12)) == log.size_bytes


def test_truncating_forgets_batches_sequences_and_epochs(make_bench: MakeBench) -> None:
    bench = make_bench(config=SMALL)
    bench.append(*[numbered(number) for number in range(10)])
    bench.try_append([append_of(numbered(10), epoch=2)])
    bench.log.truncate(Offset(4))
    assert (bench.log.end_offset, bench.log.high_watermark) == (4, 4)
    assert [record.offset for record in bench.records()] == [0, 1, 2, 3]
    assert bench.log.end_offset_for_epoch(LeaderEpoch(1)) == (1, 4)
    (done,) = bench.try_append([append_of(numbered(4), epoch=2)])
    assert not isinstance(done, RefusedError)
    assert (done.base_offset, done.duplicate) == (4, False)
    bench.restart()
    assert [record.offset for record in bench.records()] == [0, 1, 2, 3, 4]


def test_truncating_inside_a_batch_takes_all_of_it(bench: Bench) -> None:
    bench.append(batch(b"a"), batch(b"b", b"c", b"d"))
    bench.log.truncate(Offset(3))
    assert bench.log.end_offset == 1


def test_truncating_below_the_start_begins_the_log_anew_at_its_start(make_bench: MakeBench) -> None:
    bench = make_bench(config=SMALL)
    bench.append(*[batch(b"%d" % number) for number in range(10)])
    bench.log.drop_before(Offset(6))
    bench.log.truncate(Offset(5))
    assert (bench.log.start_offset, bench.log.end_offset) == (6, 6)
    bench.append(batch(b"new"))
    bench.restart()
    assert [(record.offset, record.value) for record in bench.records()] == [(6, b"new")]


def test_truncating_the_batch_that_holds_the_start_begins_the_log_anew(bench: Bench) -> None:
    bench.append(batch(b"a", b"b", b"c"))
    bench.log.drop_before(Offset(1))
    bench.run(bench.storage.checkpoint())
    bench.log.truncate(Offset(2))
    assert (bench.log.start_offset, bench.log.end_offset) == (1, 1)
    bench.append(batch(b"new"))
    bench.die()
    bench.open()
    assert [(record.offset, record.value) for record in bench.records()] == [(1, b"new")]


def test_what_a_producer_sent_before_the_log_began_anew_is_not_half_remembered(make_bench: MakeBench) -> None:
    bench = make_bench(config=SMALL)
    bench.append(*[numbered(number) for number in range(8)])
    bench.restart()  # leaves a snapshot that knows the first eight
    bench.append(numbered(8), numbered(9))
    bench.log.drop_before(Offset(9))
    bench.log.truncate(Offset(9))
    (done,) = bench.append(numbered(9))
    assert (done.base_offset, done.duplicate) == (9, False)
