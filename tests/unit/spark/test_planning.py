"""Cutting and limiting ranges never loses an offset and never reads one twice."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.model.topics import TopicPartition
from kohort.spark.offsets import OffsetRange, topic_partition
from kohort.spark.planning import limit, ranges, shares, split, tasks, volume

SIZES = st.lists(st.integers(0, 5_000), min_size=1, max_size=8)


def ranges_of(sizes: list[int]) -> list[OffsetRange]:
    return [OffsetRange("t", number, 100, 100 + size) for number, size in enumerate(sizes)]


def offsets_of(*sizes: int) -> dict[TopicPartition, int]:
    return {topic_partition("t", number): size for number, size in enumerate(sizes)}


def joined(pieces: list[OffsetRange]) -> list[OffsetRange]:
    """The pieces put together again; fails if they do not meet."""
    whole: dict[tuple[str, int], OffsetRange] = {}
    for piece in pieces:
        known = whole.setdefault((piece.topic, piece.partition), piece)
        assert piece is known or piece.start == known.end
        whole[piece.topic, piece.partition] = known._replace(end=piece.end)
    return list(whole.values())


def test_ranges_lie_between_starts_and_ends() -> None:
    starts, ends = offsets_of(0, 5, 9), offsets_of(4, 5, 8)
    assert ranges(starts, ends) == [OffsetRange("t", 0, 0, 4)]


def test_a_partition_on_one_side_alone_has_no_range() -> None:
    assert ranges(offsets_of(0), {topic_partition("new", 0): 9}) == []


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(1, 3_000))
def test_a_range_is_split_into_pieces_that_meet(size: int, at_most: int) -> None:
    whole = OffsetRange("t", 0, 7, 7 + size)
    pieces = split(whole, at_most)
    assert all(0 < piece.size <= at_most for piece in pieces)
    assert all(left.end == right.start for left, right in pairwise(pieces))
    assert joined(list(pieces)) == ([whole] if size else [])


@pytest.mark.slow
@given(SIZES, st.none() | st.integers(1, 40), st.none() | st.integers(1, 4_000))
def test_tasks_cover_every_offset_once(sizes: list[int], least: int | None, most: int | None) -> None:
    planned = ranges_of(sizes)
    cut = tasks(planned, min_partitions=least, max_records=most)
    assert joined(cut) == [one for one in planned if one.size]
    assert all(0 < piece.size <= (most or piece.size) for piece in cut)


def test_there_is_a_task_for_each_partition_with_something_to_read() -> None:
    assert tasks(ranges_of([5, 0, 7])) == [OffsetRange("t", 0, 100, 105), OffsetRange("t", 2, 100, 107)]


@pytest.mark.parametrize(
    ("sizes", "least", "lengths"),
    [
        ([1_000], 4, [250] * 4),
        ([100, 900], 10, [100, 100, 100, 100, 100, 100, 100, 100, 100, 100]),
        ([1, 999], 3, [1, 499, 500]),  # the small one stays whole and does not count in the shares
        ([500, 500], 2, [500, 500]),
        ([2], 9, [1, 1]),
    ],
)
def test_large_ranges_are_cut_to_reach_the_number_of_tasks(
    sizes: list[int], least: int, lengths: list[int]
) -> None:
    assert [piece.size for piece in tasks(ranges_of(sizes), min_partitions=least)] == lengths


@pytest.mark.slow
@given(SIZES, st.integers(1, 4_000))
def test_a_limit_is_shared_in_proportion_and_starves_nobody(sizes: list[int], at_most: int) -> None:
    starts = offsets_of(*[100] * len(sizes))
    ends = offsets_of(*[100 + size for size in sizes])
    limited = limit(starts, ends, at_most)
    total = sum(sizes)
    assert limited.keys() == ends.keys()
    for where, end in limited.items():
        size, taken = ends[where] - 100, end - 100
        assert 0 <= taken <= size
        assert taken > 0 or size == 0
        if total > at_most:
            assert taken == min(size, max(1, at_most * size // total))
    assert volume(starts, limited) < at_most + len(sizes)


@pytest.mark.slow
@given(st.lists(st.integers(0, 60), min_size=1, max_size=5), st.integers(1, 30))
def test_limited_batches_read_everything_in_the_end(sizes: list[int], at_most: int) -> None:
    at, ends = offsets_of(*[0] * len(sizes)), offsets_of(*sizes)
    read: list[OffsetRange] = []
    for _ in range(sum(sizes) + 1):
        reached = limit(at, ends, at_most)
        read += ranges(at, reached)
        at = reached
        if at == ends:
            break
    assert at == ends
    expected = [OffsetRange("t", number, 0, size) for number, size in enumerate(sizes) if size]
    assert sorted(joined(read)) == expected


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert limit(offsets_of(0, 3), offsets_of(4, 9), 10) == offsets_of(4, 9)


def test_a_partition_that_was_cut_short_goes_to_its_end() -> None:
    assert limit(offsets_of(50, 0), offsets_of(40, 100), 10) == offsets_of(40, 10)


@pytest.mark.slow
@given(SIZES, st.integers(1, 6_000), st.none() | st.integers(1, 12))
def test_shares_hold_every_range_once_and_small_ones_go_together(
    sizes: list[int], at_most: int, least: int | None
) -> None:
    pieces = tasks(ranges_of(sizes))
    found = shares(pieces, at_most, min_partitions=least)
    assert [one for share in found for one in share] == pieces
    assert all(len(share) == 1 or sum(one.size for one in share) <= at_most for share in found)
    assert len(found) >= min(least or 0, len(pieces))


def test_two_thousand_partitions_with_a_few_records_are_two_tasks() -> None:
    assert len(shares(ranges_of([5] * 2_000), 5_000)) == 2


def test_a_share_is_closed_when_the_next_range_does_not_fit() -> None:
    found = shares(ranges_of([3, 4, 3, 20, 1, 1]), 7)
    assert [[one.size for one in share] for share in found] == [[3, 4], [3], [20], [1, 1]]
    assert [len(share) for share in shares(ranges_of([1] * 6), 7, min_partitions=4)] == [1] * 6
