"""Which segments go."""

import time
from dataclasses import dataclass

import pytest
from tests.unit.log.bench import batch
from tests.unit.log.conftest import MakeBench

from kohort.log.log import LogConfig
from kohort.log.retention import segments_to_drop
from kohort.model.ids import Offset, WallTime

NOW = WallTime(100_000)


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


def test_nothing_beyond_the_high_watermark_goes() -> None:
    assert drop(log(90, 90, 90), LogConfig(retention_ms=50), high_watermark=15) == 1


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
