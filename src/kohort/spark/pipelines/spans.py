"""Sets of offsets as spans: pairs ``(first, end)`` without the end, ascending, apart from each other."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Span(NamedTuple):
    """The offsets from ``first`` up to, and without, ``end``."""

    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


Spans = tuple[Span, ...]


def add(spans: Spans, new: Span) -> Spans:
    """The union; what touches becomes one span."""
    if new.size <= 0:
        return spans
    first, end = new
    apart = []
    for span in spans:
        if span.end < first or span.first > end:
            apart.append(span)
        else:
            first, end = min(first, span.first), max(end, span.end)
    return tuple(sorted([*apart, Span(first, end)]))


def subtract(whole: Span, spans: Spans) -> Spans:
    """What of ``whole`` is in none of ``spans``."""
    left = []
    first = whole.first
    for span in spans:
        if span.end <= first:
            continue
        if span.first >= whole.end:
            break
        if span.first > first:
            left.append(Span(first, span.first))
        first = span.end
    if first < whole.end:
        left.append(Span(first, whole.end))
    return tuple(left)


def gaps(spans: Sequence[Span]) -> Spans:
    """What is missing between the first and the last."""
    return tuple(Span(before.end, after.first) for before, after in pairwise(spans))


def size(spans: Sequence[Span]) -> int:
    """How many offsets there are in all."""
    return sum(span.size for span in spans)
