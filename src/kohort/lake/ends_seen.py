"""Where a log was seen to end, and when: exact for the last minutes, thinner the older it is. Pure Python.

The time since an offset was behind the end is asked for offsets of any age. To keep every sample would cost
more with every day; so of older ones the last of its minute, of its hour and of its day is kept. What is
answered is true for certain: a record is there at least since then, and at most a minute, hour or day longer.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


class SeenEnd(NamedTuple):
    """A log ended here at a time in milliseconds."""

    ts: int
    end: int


class EndsSeen:
    """The larger and larger ends of one log."""

    def __init__(self, points: Iterable[tuple[int, int]] = ()) -> None:
        self.points = [SeenEnd(*point) for point in sorted(points)]

    def see(self, ts: int, end: int) -> None:
        """The log ends here now. An end that is not behind the last one says nothing new."""
        if self.points and end <= self.points[-1].end:
            return
        if self.points and ts // _MINUTE != self.points[-1].ts // _MINUTE:
            self.points = _thin(self.points, ts)
        self.points.append(SeenEnd(ts, end))

    def since(self, offset: int, now: int) -> int:
        """When the log was first seen to end behind this offset; now, if it was not."""
        place = bisect_right(self.points, offset, key=lambda point: point.end)
        return self.points[place].ts if place < len(self.points) else now


def _thin(points: list[SeenEnd], now: int) -> list[SeenEnd]:
    kept: list[SeenEnd] = []
    for point in points:
        span = _span(point.ts, now)
        if span is not None and kept and kept[-1].ts // span == point.ts // span:
            kept[-1] = point
        else:
            kept.append(point)
    return kept


def _span(ts: int, now: int) -> int | None:
    """Of how much time one point is kept."""
    if ts // _MINUTE >= now // _MINUTE - 1:
        return None
    if ts // _HOUR >= now // _HOUR - 1:
        return _MINUTE
    return _HOUR if ts // _DAY >= now // _DAY - 1 else _DAY
