"""Compacting a log while it is in use."""

from dataclasses import replace

from tests.unit.log.bench import COMPACTED, Bench, batch, numbered
from tests.unit.log.conftest import MakeBench

from kohort.log.files.compaction import Round, Work, compact
from kohort.log.files.leftovers import CLEANED, SWAP
from kohort.log.files.segmented import SegmentedLog
from kohort.model.ids import Offset, WallTime

CONFIG = replace(COMPACTED, segment_bytes=300, index_interval_bytes=100)
LATER = WallTime(1_000_000)


def fill(bench: Bench, count: int = 20, keys: int = 3) -> dict[bytes, int]:
    """Append ``count`` batches with ``keys`` keys in turn; returns the last offset of each key."""
    for number in range(count):
        key = b"key-%d" % (number % keys)
        bench.append(batch(b"value-%d" % number, key=key, at=1_000 + number))
    return {record.key: record.offset for record in bench.records() if record.key is not None}


def test_every_offset_can_still_be_asked_for(make_bench: MakeBench) -> None:
    bench = make_bench(config=CONFIG)
    fill(bench)
    bench.compact(LATER)
    remaining = [record.offset for record in bench.records()]
    for offset in range(bench.log.end_offset):
        found = [record.offset for record in bench.records(offset)]
        assert found == [candidate for candidate in remaining if candidate >= offset]
        assert bench.log.readable_bytes(Offset(offset), bench.log.end_offset) > 0


def test_a_producer_is_still_recognised_after_compaction(make_bench: MakeBench) -> None:
    bench = make_bench(config=CONFIG)
    bench.append(numbered(0), numbered(1))
    fill(bench, keys=1)
    bench.append(batch(b"newer"))  # has the key of the numbered ones
    fill(bench)
    bench.compact(LATER)
    bench.die()
    bench.open()
    (again,) = bench.append(numbered(1))
    assert (again.duplicate, again.base_offset) == (True, 1)


def run(step: Work | None) -> None:
    if step is not None:
        step()


def test_the_log_can_be_used_between_steps(make_bench: MakeBench) -> None:
    bench = make_bench(config=CONFIG)
    fill(bench)
    for step in bench.log.compact(LATER):
        run(step)
        bench.append(batch(b"meanwhile", key=b"other"))
    newest = {record.key: record.offset for record in bench.records()}
    assert newest[b"other"] == bench.log.end_offset - 1
    assert bench.log.cleaned_up_to > 0


def test_compaction_gives_up_when_segments_go_meanwhile(make_bench: MakeBench) -> None:
    bench = make_bench(config=CONFIG)
    fill(bench)
    steps = bench.log.compact(LATER)
    run(next(steps))
    bench.log.drop_before(Offset(10))
    before = bench.records()
    for step in steps:
        run(step)
    assert bench.records() == before
    assert bench.log.cleaned_up_to == 0
    assert not [name for name in bench.names() if name.endswith((CLEANED, SWAP))]


def test_compaction_that_is_not_run_to_its_end_leaves_the_log_as_it_was(make_bench: MakeBench) -> None:
    bench = make_bench(config=CONFIG)
    fill(bench)
    before = bench.records()
    steps = bench.log.compact(LATER)
    run(next(steps))
    steps.close()
    assert bench.records() == before
    assert not [name for name in bench.names() if name.endswith((CLEANED, SWAP))]


def test_a_round_stops_at_the_segment_where_it_knows_enough_keys(make_bench: MakeBench) -> None:
    bench = make_bench(config=CONFIG)
    fill(bench, count=20, keys=20)
    log: SegmentedLog = bench.log
    segments = log._segments[:-1]
    plan = Round(
        place=log._place,
        segments=segments,
        end=log._segments[-1].base_offset,
        cleaned_up_to=Offset(0),
        active={},
        config=log.config,
        now=LATER,
        most_keys=4,
    )
    for step in compact(log, plan):
        run(step)
    assert 4 < log.cleaned_up_to < segments[-1].base_offset
    assert len(bench.records()) == 20


def test_a_long_compaction_gives_way_again_and_again(make_bench: MakeBench) -> None:
    bench = make_bench(config=replace(CONFIG, segment_bytes=200_000))
    for number in range(30):
        bench.append(batch(b"x" * 20_000, key=b"%d" % number))
    pauses = 0
    for step in bench.log.compact(LATER):
        run(step)
        pauses += step is None
    assert pauses > 10
    assert len(bench.records()) == 30
