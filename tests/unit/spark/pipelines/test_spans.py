"""Sets of offsets as spans, held against sets of numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kohort.spark.pipelines.spans import Span, Spans, add, gaps, size, subtract

ends = st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda pair: Span(pair[0], pair[0] + pair[1]))


def offsets(spans: Spans) -> set[int]:
    return {offset for span in spans for offset in range(*span)}


def built(news: list[Span]) -> Spans:
    spans: Spans = ()
    for new in news:
        spans = add(spans, new)
    return spans


@given(st.lists(ends))
def test_adding_gives_the_union_in_as_few_spans_as_possible(news: list[Span]) -> None:
    spans = built(news)
    assert offsets(spans) == {offset for new in news for offset in range(*new)}
    assert all(before.end < after.first for before, after in pairwise(spans))
    assert size(spans) == len(offsets(spans))


@given(ends, st.lists(ends))
def test_subtracting_leaves_what_is_in_none_of_them(whole: Span, news: list[Span]) -> None:
    left = subtract(whole, built(news))
    assert offsets(left) == set(range(*whole)) - offsets(built(news))
    assert all(span.size > 0 for span in left)


@given(st.lists(ends, min_size=1))
def test_gaps_are_what_is_missing_in_between(news: list[Span]) -> None:
    spans = built(news)
    if spans:
        assert offsets(gaps(spans)) == set(range(spans[0].first, spans[-1].end)) - offsets(spans)
