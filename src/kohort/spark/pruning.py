"""Filters of a query that leave out whole ranges of offsets. Only under ``kohort.push.filters``.

Spark refuses a reader that takes filters unless ``spark.sql.python.filterPushdown.enabled`` is set.
"""

from collections.abc import Iterable, Iterator

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kohort.spark.batch import BatchReader
from kohort.spark.offsets import OffsetRange
from kohort.spark.options import SourceOptions


class PruningReader(BatchReader):
    """A batch reader that reads only what filters on topic, partition and offset let through."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802  (Spark's name)
        """Keep those that ranges can answer exactly, and give the others back."""
        for one in filters:
            if is_answered(one):
                self._filters.append(one)
            else:
                yield one

    def prune(self, planned: list[OffsetRange]) -> list[OffsetRange]:
        return prune(planned, self._filters)


def is_answered(one: Filter) -> bool:
    """Whether ``prune`` gives exactly the rows that pass the filter."""
    match one:
        case EqualTo(("topic" | "partition" | "offset",)) | In(("topic" | "partition",)):
            return True
        case GreaterThan(("offset",)) | GreaterThanOrEqual(("offset",)):
            return True
        case LessThan(("offset",)) | LessThanOrEqual(("offset",)):
            return True
        case _:
            return False


def prune(planned: Iterable[OffsetRange], filters: Iterable[Filter]) -> list[OffsetRange]:
    """What is left of the ranges."""
    left = list(planned)
    for one in filters:
        left = [narrow(each, one) for each in left]
    return [each for each in left if each.size > 0]


def narrow(whole: OffsetRange, one: Filter) -> OffsetRange:
    """The part of a range that passes one filter; an empty range if none does."""
    start, end = whole.start, whole.end
    match one:
        case EqualTo(("offset",), value):
            start, end = max(start, value), min(end, value + 1)
        case GreaterThan(("offset",), value):
            start = max(start, value + 1)
        case GreaterThanOrEqual(("offset",), value):
            start = max(start, value)
        case LessThan(("offset",), value):
            end = min(end, value)
        case LessThanOrEqual(("offset",), value):
            end = min(end, value + 1)
        case EqualTo((name,), value):
            end = end if getattr(whole, name) == value else start
        case In((name,), value):
            end = end if getattr(whole, name) in value else start
    return whole._replace(start=start, end=max(start, end))
