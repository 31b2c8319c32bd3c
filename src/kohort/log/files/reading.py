"""Reading whole batches out of the segments of a log."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from kohort.log.files.segment import LOG, Segment
from kohort.log.files.walk import whole_batches
from kohort.log.log import Slice
from kohort.model.ids import Offset
from kohort.records.batch import CorruptBatchError

_BASE_OFFSET = attrgetter("base_offset")


class View(NamedTuple):
    """What a reader sees of a log."""

    segments: Sequence[Segment]
    end_offset: Offset
    high_watermark: Offset
    safe_end: tuple[Segment, int] | None  # where the high watermark is, when that is not the end

    def segment_at(self, offset: int) -> int:
        """The number of the segment that holds ``offset``, or of the first one after it that may."""
        segments = self.segments
        if segments and segments[-1].base_offset <= offset:
            return len(segments) - 1
        return max(bisect_right(segments, offset, key=_BASE_OFFSET) - 1, 0)

    def end_of(self, number: int) -> Offset:
        """The offset after a segment."""
        following = number + 1
        return self.segments[following].base_offset if following < len(self.segments) else self.end_offset


def read(view: View, offset: Offset, max_bytes: int, limit: Offset, at_least_one: bool) -> Slice:
    """``Log.read`` for an offset that is in range."""
    limit = min(limit, view.end_offset)
    for number in range(view.segment_at(offset), len(view.segments) if offset < limit else 0):
        segment = view.segments[number]
        start = segment.locate(offset)
        if start is None:
            continue  # compaction has removed the last batches of this segment
        end, after = _end_in(view, number, limit)
        readable = _end_before_damage(segment, start, end) if segment.damages else end
        content, next_offset = (
            segment.read(start, readable, max_bytes, at_least_one) if start < readable else (b"", None)
        )
        if readable < end and content and next_offset is None:
            next_offset = whole_batches(content, 0)[1]
        if not content:
            break
        if next_offset is not None or number == len(view.segments) - 1:
            segment.remember(after if next_offset is None else next_offset, start + len(content))
        return Slice([content], len(content), after if next_offset is None else Offset(next_offset))
    return Slice([], 0, offset)


def _end_before_damage(segment: Segment, start: int, end: int) -> int:
    """Where intact batches from ``start`` on end. Raises ``CorruptBatchError`` if there is none."""
    for damage in segment.damages:
        if damage.start <= start < damage.end:
            raise CorruptBatchError(f"{segment.path}{LOG}: {damage.reason}")
        if start < damage.start:
            return min(end, damage.start)
    return end


def readable_bytes(view: View, offset: Offset, limit: Offset) -> int:
    """``Log.readable_bytes``: from the indexes alone."""
    limit = min(limit, view.end_offset)
    if offset >= limit:
        return 0
    total = 0
    for number in range(view.segment_at(offset), len(view.segments)):
        segment = view.segments[number]
        if segment.base_offset >= limit:
            break
        if view.end_of(number) <= limit or limit == view.high_watermark:
            end, _ = _end_in(view, number, limit)
        else:
            end = segment.floor(limit)
        total += end - segment.floor(offset)
    return max(total, 1)


def _end_in(view: View, number: int, limit: Offset) -> tuple[int, Offset]:
    """Where reading a segment must stop, and which offset comes then."""
    segment = view.segments[number]
    end = view.end_of(number)
    if end <= limit:
        return segment.size, end
    if view.safe_end is not None and view.safe_end[0] is segment and limit == view.high_watermark:
        return view.safe_end[1], limit
    position = segment.locate(limit)
    return (segment.size if position is None else position), limit
