"""The rules of the server-side assignors, by the numbers of the scenarios in ``modern-groups`` 18."""

from collections import Counter

import pytest
from tests.property.assign.server.groups import ASSIGNORS, numbers, topic_id

from kohort.assign.server.group import GroupSpec, Targets
from kohort.model.ids import InstanceId, MemberId, TopicId

T, U = topic_id(2), topic_id(3)


def members(*ids: str, topics: tuple[TopicId, ...] = (T,)) -> dict[MemberId, frozenset[TopicId]]:
    return {MemberId(member_id): frozenset(topics) for member_id in ids}


def sizes(targets: Targets) -> dict[str, int]:
    return {member: sum(map(len, shares.values())) for member, shares in targets.items()}


def uniform(group: GroupSpec) -> Targets:
    return ASSIGNORS["uniform"].assign(group)


def test_61_a_third_member_takes_one_partition_and_nothing_else_moves() -> None:
    two = uniform(GroupSpec(members("a", "b"), {T: 5}, True))
    assert sorted(sizes(two).values()) == [2, 3]
    three = uniform(GroupSpec(members("a", "b", "c"), {T: 5}, True, two))
    assert Counter(sizes(three).values()) == Counter([2, 2, 1])
    assert sum(len(two[member][T] - three[member][T]) for member in two) == 1


def test_62_survivors_keep_what_they_had_when_a_member_leaves() -> None:
    three = uniform(GroupSpec(members("a", "b", "c"), {T: 9}, True))
    two = uniform(GroupSpec(members("a", "c"), {T: 9}, True, three))
    assert all(three[MemberId(member)][T] <= two[MemberId(member)][T] for member in "ac")


def test_63_loads_are_balanced_over_all_topics_of_a_member() -> None:
    group = {**members("a"), **members("b", topics=(T, U))}
    assert sizes(uniform(GroupSpec(group, {T: 6, U: 2}, False))) == {"a": 4, "b": 4}


def test_64_range_gives_the_first_members_the_remainder_of_every_topic() -> None:
    targets = ASSIGNORS["range"].assign(GroupSpec(members("b", "a", topics=(T, U)), {T: 3, U: 3}, True))
    assert targets == {"a": {T: numbers([0, 1]), U: numbers([0, 1])}, "b": {T: numbers([2]), U: numbers([2])}}


def test_65_range_serves_static_members_first() -> None:
    instances = {MemberId("z"): InstanceId("i2")}
    targets = ASSIGNORS["range"].assign(GroupSpec(members("a", "z"), {T: 3}, True, instances=instances))
    assert targets == {"z": {T: numbers([0, 1])}, "a": {T: numbers([2])}}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_67_members_beyond_the_number_of_partitions_get_nothing(name: str) -> None:
    targets = ASSIGNORS[name].assign(GroupSpec(members("a", "b", "c"), {T: 2}, True))
    assert sorted(sizes(targets).values()) == [0, 1, 1]


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("same_topics", [True, False])
def test_members_without_topics_get_nothing(name: str, same_topics: bool) -> None:
    held = {MemberId("a"): {T: numbers([0])}}
    assert ASSIGNORS[name].assign(GroupSpec(members("a", topics=()), {}, same_topics, held)) == {"a": {}}
    assert ASSIGNORS[name].assign(GroupSpec({}, {}, same_topics)) == {}
