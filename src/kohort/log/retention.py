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

    First those below the start go, then those that are too many, then those that are too old: each rule
    judges what the one before it leaves. Nothing at or beyond the high watermark goes, nor an empty last
    segment.
    """
    droppable = sum(following.base_offset <= high_watermark for following in segments[1:])
    if droppable == len(segments) - 1 and segments and segments[-1].size:
        droppable += 1
    dropped = sum(following.base_offset <= start_offset for following in segments[1:])
    if Cleanup.DELETE in config.cleanup:
        dropped = _too_many(segments, dropped, config)
        dropped = _too_old(segments, dropped, config, now)
    return min(droppable, dropped)


def _too_many(segments: Sequence[Aged], dropped: int, config: LogConfig) -> int:
    if config.retention_bytes == UNLIMITED:
        return dropped
    surplus = sum(segment.size for segment in segments[dropped:]) - config.retention_bytes
    while dropped < len(segments) and surplus >= segments[dropped].size:
        surplus -= segments[dropped].size
        dropped += 1
    return dropped


def _too_old(segments: Sequence[Aged], dropped: int, config: LogConfig, now: WallTime) -> int:
    if config.retention_ms == UNLIMITED:
        return dropped
    while dropped < len(segments) and now - largest_timestamp(segments[dropped]) > config.retention_ms:
        dropped += 1
    return dropped
