"""What holds for all assignors, and for those that remember nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.assign.generated import Case, Kind, cases, steady
from tests.property.assign.judgement import (
    check_complete,
    check_even,
    check_only_what_was_asked_for,
    given_out,
)
from tests.rounds import ROUNDS

from kohort.assign.assignor import ClusterView
from kohort.assign.range import RangeAssignor
from kohort.assign.registry import choose_assignors
from kohort.assign.roundrobin import RoundRobinAssignor
from kohort.model.ids import TopicName

pytestmark = pytest.mark.slow

EAGER = ("range", "roundrobin", "sticky")
ALL = (*EAGER, "cooperative-sticky")
ANYTHING = Kind(racks=True, instances=True)


@given(case=cases(ANYTHING))
@settings(steady, max_examples=80 * ROUNDS)
def test_everything_is_assigned_once_and_only_to_subscribers(case: Case) -> None:
    for assignor in choose_assignors(EAGER):
        result = dict(assignor.assign(case.cluster, case.members))
        check_complete(case, result)
        check_only_what_was_asked_for(case, result)


@given(case=cases(ANYTHING), random=st.randoms(use_true_random=False))
@steady
def test_the_order_of_members_and_topics_does_not_matter(case: Case, random: Random) -> None:
    shuffled = Case(_shuffled_cluster(case.cluster, random.shuffle), {})
    order = list(case.members)
    random.shuffle(order)
    for member in order:
        topics = list(case.members[member].topics)
        random.shuffle(topics)
        shuffled.members[member] = replace(case.members[member], topics=tuple(topics))
    for name in ALL:
        (assignor,) = choose_assignors([name])
        expected = assignor.assign(case.cluster, case.members)
        assert assignor.assign(shuffled.cluster, shuffled.members) == expected


def _shuffled_cluster(cluster: ClusterView, shuffle: Callable[[list[TopicName]], None]) -> ClusterView:
    order = list(cluster.partitions)
    shuffle(order)
    return ClusterView({topic: cluster.partitions[topic] for topic in order}, cluster.racks)


@given(case=cases(Kind(claims=False, instances=True)))
@steady
def test_range_cuts_each_topic_into_even_stretches(case: Case) -> None:
    result = RangeAssignor().assign(case.cluster, case.members)
    for topic, count in case.cluster.partitions.items():
        if any(topic in wish.topics for wish in case.members.values()):
            stretches = _numbers_by_member(case, result, topic)
            assert sum(map(len, stretches)) == count
            assert max(map(len, stretches)) - min(map(len, stretches)) <= 1
            assert all(after == before + 1 for stretch in stretches for before, after in pairwise(stretch))


def _numbers_by_member(case: Case, result: object, topic: TopicName) -> list[Sequence[int]]:
    assert isinstance(result, dict)
    return [
        [tp.partition for tp in result[member].partitions if tp.topic == topic]
        for member, wish in case.members.items()
        if topic in wish.topics
    ]


@pytest.mark.parametrize("racks", [False, True])
@given(case=cases(Kind(claims=False, uniform=True, racks=True)))
@steady
def test_range_co_partitions_topics_of_one_size(racks: bool, case: Case) -> None:
    cluster = case.cluster if racks else ClusterView(case.cluster.partitions)
    result = RangeAssignor().assign(cluster, case.members)
    by_size: dict[int, list[list[Sequence[int]]]] = {}
    for topic, count in cluster.partitions.items():
        if topic in next(iter(case.members.values())).topics:
            by_size.setdefault(count, []).append(_numbers_by_member(case, result, topic))
    for alike in by_size.values():
        assert all(numbers == alike[0] for numbers in alike)


@given(case=cases(Kind(claims=False, uniform=True, instances=True)))
@steady
def test_roundrobin_is_even_where_all_want_the_same(case: Case) -> None:
    result = RoundRobinAssignor().assign(case.cluster, case.members)
    check_even(result)
    check_complete(case, result)


@given(case=cases(Kind(claims=False, racks=True)))
@steady
def test_range_with_racks_gives_each_member_as_many_as_without(case: Case) -> None:
    plain = ClusterView(case.cluster.partitions)
    with_racks = RangeAssignor().assign(case.cluster, case.members)
    assert sorted(given_out(with_racks)) == sorted(given_out(RangeAssignor().assign(plain, case.members)))
    for topic in case.cluster.partitions:
        if any(topic in wish.topics for wish in case.members.values()):
            shares = [len(numbers) for numbers in _numbers_by_member(case, with_racks, topic)]
            assert max(shares) - min(shares) <= 1
