"""Which segments are to go, and when a new one is due: decisions only, over sizes and timestamps."""

from collections.abc import Sequence
from typing import Protocol

from kohort.log.log import UNLIMITED, Cleanup, LogConfig
from kohort.model.ids import Offset, WallTime


class Aged(Protocol):
    """What retention looks at in a segment."""

    base_offset: Offset
    size: int
    modified: int

    @property
    def youngest(self) -> tuple[int, int]: ...

    @property
    def first_timestamp(self) -> int: ...


def largest_timestamp(segment: Aged) -> int:
    """When a segment was last added to: by its youngest record, or by the clock if none has a timestamp."""
    timestamp = segment.youngest[0]
    return timestamp if timestamp >= 0 else segment.modified


def segments_to_drop(
    segments: Sequence[Aged], start_offset: Offset, high_watermark: Offset, config: LogConfig, now: WallTime
) -> int:
    """How many of the first segments may go; all of them means that the last one must be rolled first.

    Nothing at or beyond the high watermark goes, nor an empty last segment.
    """
    droppable = sum(following.base_offset <= high_watermark for following in segments[1:])
    if droppable == len(segments) - 1 and segments and segments[-1].size:
        droppable += 1
    below_start = sum(following.base_offset <= start_offset for following in segments[1:])
    if Cleanup.DELETE not in config.cleanup:
        return min(droppable, below_start)
    return min(droppable, max(below_start, _too_old(segments, config, now), _too_many(segments, config)))


def _too_old(segments: Sequence[Aged], config: LogConfig, now: WallTime) -> int:
    if config.retention_ms == UNLIMITED:
        return 0
    for count, segment in enumerate(segments):
        if now - largest_timestamp(segment) <= config.retention_ms:
            return count
    return len(segments)


def _too_many(segments: Sequence[Aged], config: LogConfig) -> int:
    if config.retention_bytes == UNLIMITED:
        return 0
    surplus = sum(segment.size for segment in segments) - config.retention_bytes
    for count, segment in enumerate(segments):
        if surplus - segment.size < 0:
            return count
        surplus -= segment.size
    return len(segments)
