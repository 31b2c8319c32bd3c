"""Filters that leave out ranges of offsets."""

import operator
from collections.abc import Callable

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from kohort.spark.offsets import OffsetRange
from kohort.spark.options import parse_source_options
from kohort.spark.pruning import PruningReader, is_answered, prune

WHOLE = [OffsetRange("a", 0, 10, 20), OffsetRange("b", 1, 10, 20)]


@pytest.mark.parametrize("value", [5, 9, 10, 14, 19, 20, 25])
@pytest.mark.parametrize(
    ("kind", "passes"),
    [
        (EqualTo, operator.eq),
        (GreaterThan, operator.gt),
        (GreaterThanOrEqual, operator.ge),
        (LessThan, operator.lt),
        (LessThanOrEqual, operator.le),
    ],
)
def test_a_filter_on_offsets_lets_through_what_it_says(
    kind: Callable[[tuple[str], int], Filter], passes: Callable[[int, int], bool], value: int
) -> None:
    left = prune(WHOLE[:1], [kind(("offset",), value)])
    offsets = [offset for piece in left for offset in range(piece.start, piece.end)]
    assert offsets == [offset for offset in range(10, 20) if passes(offset, value)]


def test_whole_partitions_and_topics_can_be_left_out() -> None:
    assert prune(WHOLE, [EqualTo(("topic",), "b")]) == WHOLE[1:]
    assert prune(WHOLE, [In(("partition",), (0, 7))]) == WHOLE[:1]
    assert prune(WHOLE, [EqualTo(("topic",), "b"), EqualTo(("partition",), 0)]) == []


@pytest.mark.parametrize(
    "one",
    [EqualTo(("value",), b"x"), IsNotNull(("offset",)), Not(EqualTo(("offset",), 1)), In(("offset",), (1,))],
)
def test_other_filters_are_left_to_spark(one: Filter) -> None:
    assert not is_answered(one)
    options = parse_source_options(
        {"kafka.bootstrap.servers": "here:9092", "subscribe": "a"}, streaming=False
    )
    assert list(PruningReader(options).pushFilters([one, EqualTo(("topic",), "a")])) == [one]
