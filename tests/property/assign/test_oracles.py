"""The same results as kafka-python and aiokafka, for any group, wherever they follow the specification.

Where they do not, case by case:

* kafka-python puts static members first only if the list it gets is already grouped: it is here.
* kafka-python's roundrobin fails on mixed subscriptions (it takes a pair of ids for a member id).
* aiokafka's assignors know no instance ids: all members are dynamic there.
* Both know only KIP-54's first sticky algorithm. With uniform subscriptions and something held, the
  specification's newer one gives up other partitions (high numbers of all topics alike); sizes are the same,
  and never more moves.
* Both let the first of two equal claims win; the specification leaves the partition to nobody. And both call
  only the second newest claimant a previous owner. So: one generation, no disputes.
"""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from tests.property.assign.generated import Case, Kind, cases, steady
from tests.property.assign.judgement import Result, sets, sizes
from tests.property.assign.others import (
    AioRange,
    AioRoundRobin,
    AioSticky,
    AioSubscription,
    PythonCooperative,
    PythonRange,
    PythonRoundRobin,
    PythonSticky,
    PythonStickyUserData,
    PythonSubscription,
)
from tests.rounds import ROUNDS

from kohort.assign.assignor import ClusterView
from kohort.assign.cooperative import CooperativeStickyAssignor
from kohort.assign.protocol import decode_subscription, encode_subscription
from kohort.assign.range import RangeAssignor
from kohort.assign.roundrobin import RoundRobinAssignor
from kohort.assign.sticky import StickyAssignor
from kohort.model.ids import MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition

pytestmark = pytest.mark.slow

many = settings(steady, max_examples=90 * ROUNDS)
Shares = dict[MemberId, set[TopicPartition]]


class Cluster:
    """As much of a metadata cache as their assignors look at."""

    def __init__(self, view: ClusterView, wanted: Iterable[TopicName]) -> None:
        self._counts = {topic: view.partitions[topic] for topic in wanted if view.partitions.get(topic)}

    def topics(self) -> set[TopicName]:
        return set(self._counts)

    def partitions_for_topic(self, topic: TopicName) -> set[int] | None:
        return set(range(self._counts[topic])) if topic in self._counts else None


def cluster_of(case: Case) -> Cluster:
    return Cluster(case.cluster, {topic for wish in case.members.values() for topic in wish.topics})


def by_kafka_python(assignor: Any, case: Case) -> Shares:  # noqa: ANN401  # their classes share no typed base
    """What a leader that runs kafka-python assigns, having read the members' blobs as we write them."""
    members = []
    for member, wish in case.members.items():
        told = PythonSubscription.decode(encode_subscription(wish))
        if told.user_data:  # as bytes it would want a version before them, which Java does not write
            told.user_data = PythonStickyUserData.decode(told.user_data, version=1, header=False)
        members.append(SimpleNamespace(member_id=member, group_instance_id=wish.instance_id, metadata=told))
    members.sort(key=lambda member: member.group_instance_id is None)
    found = assignor.assign(cluster_of(case), members)
    return {member: _partitions(share.assigned_partitions) for member, share in found.items()}


def by_aiokafka(assignor: Any, case: Case) -> Shares:  # noqa: ANN401  # their classes share no typed base
    """What a leader that runs aiokafka assigns."""
    members = {
        member: AioSubscription.decode(encode_subscription(wish)) for member, wish in case.members.items()
    }
    found = assignor.assign(cluster_of(case), members)
    return {member: _partitions(share.assignment) for member, share in found.items()}


def _partitions(assigned: Iterable[tuple[str, list[int]]]) -> set[TopicPartition]:
    return {TopicPartition(TopicName(t), Partition(number)) for t, numbers in assigned for number in numbers}


def moved(case: Case, shares: Shares) -> int:
    return sum(len(set(wish.owned) - shares[member]) for member, wish in case.members.items())


def check_as_even_and_as_sticky(case: Case, ours: Result, theirs: Shares) -> None:
    assert sorted(sizes(ours)) == sorted(map(len, theirs.values()))
    assert moved(case, sets(ours)) <= moved(case, theirs)


@given(case=cases(Kind(claims=False, instances=True)))
@many
def test_range_is_kafka_pythons(case: Case) -> None:
    assert sets(RangeAssignor().assign(case.cluster, case.members)) == by_kafka_python(PythonRange, case)


@given(case=cases(Kind(claims=False)))
@many
def test_range_and_roundrobin_are_aiokafkas(case: Case) -> None:
    assert sets(RangeAssignor().assign(case.cluster, case.members)) == by_aiokafka(AioRange, case)
    assert sets(RoundRobinAssignor().assign(case.cluster, case.members)) == by_aiokafka(AioRoundRobin, case)


@given(case=cases(Kind(claims=False, instances=True, uniform=True)))
@many
def test_roundrobin_is_kafka_pythons_for_uniform_groups(case: Case) -> None:
    ours = RoundRobinAssignor().assign(case.cluster, case.members)
    assert sets(ours) == by_kafka_python(PythonRoundRobin, case)


@given(case=cases(Kind(claims=False)))
@many
def test_sticky_is_theirs_for_groups_that_hold_nothing(case: Case) -> None:
    ours = StickyAssignor().assign(case.cluster, case.members)
    assert sets(ours) == by_kafka_python(PythonSticky(), case)
    assert sets(ours) == by_aiokafka(AioSticky(), case)


HELD = Kind(uniform=False, one_generation=True, disputes=False, unknown_topics=False)


@given(case=cases(HELD))
@many
def test_sticky_is_theirs_for_mixed_groups_that_hold_something(case: Case) -> None:
    ours = StickyAssignor().assign(case.cluster, case.members)
    assert sets(ours) == by_kafka_python(PythonSticky(), case)
    assert sets(ours) == by_aiokafka(AioSticky(), case)


@given(case=cases(HELD._replace(uniform=True)))
@many
def test_sticky_is_as_even_as_theirs_and_moves_no_more_in_uniform_groups(case: Case) -> None:
    ours = StickyAssignor().assign(case.cluster, case.members)
    check_as_even_and_as_sticky(case, ours, by_kafka_python(PythonSticky(), case))
    check_as_even_and_as_sticky(case, ours, by_aiokafka(AioSticky(), case))


@given(case=cases(HELD))
@many
def test_cooperative_sticky_withholds_what_kafka_python_withholds(case: Case) -> None:
    ours = CooperativeStickyAssignor().assign(case.cluster, case.members)
    assert sets(ours) == by_kafka_python(PythonCooperative(), case)


@given(case=cases(Kind(instances=True, racks=True)))
@steady
def test_what_members_write_is_what_a_leader_assigns_by(case: Case) -> None:
    heard = {member: decode_subscription(encode_subscription(wish)) for member, wish in case.members.items()}
    assert StickyAssignor().assign(case.cluster, heard) == StickyAssignor().assign(case.cluster, case.members)
