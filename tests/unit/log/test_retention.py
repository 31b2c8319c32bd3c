"""Which segments go."""

import time
from dataclasses import dataclass

import pytest
from tests.unit.log.bench import batch
from tests.unit.log.conftest import MakeBench

from kohort.log.log import UNLIMITED, Cleanup, LogConfig
from kohort.log.retention import segments_to_drop
from kohort.model.ids import Offset, WallTime

NOW = WallTime(100_000)
KEEP = LogConfig(retention_ms=UNLIMITED)


@dataclass
class Old:
    """A segment of ten offsets and a hundred bytes."""

    base_offset: Offset
    age: int
    size: int = 100
    modified: int = 0

    @property
    def youngest(self) -> tuple[int, int]:
        return (NOW - self.age if self.age >= 0 else -1), self.base_offset

    @property
    def first_timestamp(self) -> int:
        return self.youngest[0]


def log(*ages: int, last_size: int = 100) -> list[Old]:
    segments = [Old(Offset(10 * number), age) for number, age in enumerate(ages)]
    segments[-1].size = last_size
    return segments


def drop(segments: list[Old], config: LogConfig, *, start: int = 0, high_watermark: int = 1_000) -> int:
    return segments_to_drop(segments, Offset(start), Offset(high_watermark), config, NOW)


def test_segments_whose_youngest_record_is_too_old_go() -> None:
    config = LogConfig(retention_ms=50)
    assert drop(log(90, 60, 50, 10), config) == 2


def test_one_young_segment_protects_all_after_it() -> None:
    assert drop(log(10, 90, 90), LogConfig(retention_ms=50)) == 0


def test_even_the_last_segment_goes_when_all_is_too_old() -> None:
    assert drop(log(90, 80), LogConfig(retention_ms=50)) == 2


def test_an_empty_last_segment_stays() -> None:
    assert drop(log(90, 80, last_size=0), LogConfig(retention_ms=50)) == 1


def test_the_time_of_the_file_counts_where_records_have_none() -> None:
    segments = log(-1, 10)
    segments[0].modified = NOW - 60
    assert drop(segments, LogConfig(retention_ms=50)) == 1
    segments[0].modified = NOW - 40
    assert drop(segments, LogConfig(retention_ms=50)) == 0


@pytest.mark.parametrize(
    ("most", "expected"), [(0, 4), (99, 3), (100, 3), (199, 2), (200, 2), (400, 0), (UNLIMITED, 0)]
)
def test_the_first_segments_go_while_enough_remains(most: int, expected: int) -> None:
    assert drop(log(0, 0, 0, 0), LogConfig(retention_ms=UNLIMITED, retention_bytes=most)) == expected


def test_nothing_beyond_the_high_watermark_goes() -> None:
    assert drop(log(90, 90, 90), LogConfig(retention_ms=50), high_watermark=15) == 1


def test_segments_below_the_start_go_whatever_the_policy() -> None:
    assert drop(log(0, 0, 0), KEEP, start=20) == 2
    compacted = LogConfig(cleanup=Cleanup.COMPACT, retention_ms=50)
    assert drop(log(90, 90, 90), compacted, start=10) == 1
    assert drop(log(90, 90, 90), LogConfig(cleanup=Cleanup.COMPACT | Cleanup.DELETE, retention_ms=50)) == 3


@pytest.mark.parametrize("again", ["at once", "restarted", "killed"])
def test_records_without_a_timestamp_are_as_old_as_the_last_append_to_their_segment(
    make_bench: MakeBench, again: str
) -> None:
    week = 604_800_000
    now = time.time_ns() // 1_000_000  # files have the time of the machine
    bench = make_bench(config=LogConfig(segment_bytes=300, retention_ms=week))
    bench.append(*[batch(b"v", at=-1) for _ in range(10)], now=now)
    if again == "killed":
        bench.die()
        bench.open()
    elif again == "restarted":
        bench.restart()
    assert bench.log.apply_retention(WallTime(now + week // 2)) == 0
    assert len(bench.records()) == 10
    assert bench.log.apply_retention(WallTime(now + week + 60_000)) > 0
    assert bench.records() == []


def test_retention_of_a_log_without_files_does_nothing(make_bench: MakeBench) -> None:
    assert make_bench().log.apply_retention(NOW) == 0
