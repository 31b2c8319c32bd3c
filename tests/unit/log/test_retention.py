"""Which segments go."""

from dataclasses import dataclass

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


def test_retention_of_a_log_without_files_does_nothing(make_bench: MakeBench) -> None:
    assert make_bench().log.apply_retention(NOW) == 0
