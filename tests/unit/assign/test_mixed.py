"""Placement for members that want different topics."""

from collections.abc import Mapping

from tests.unit.assign.notation import Group, group, holding, topics

from kohort.assign.assignor import ClusterView
from kohort.assign.claims import judge
from kohort.assign.members import by_member_id, partitions_of, subscribers
from kohort.assign.mixed import place_mixed
from kohort.assign.protocol import decode_sticky_user_data


def placed(cluster: ClusterView, members: Group) -> dict[str, str]:
    wanted = subscribers(cluster, members, by_member_id(members))
    claims = {member: decode_sticky_user_data(wish.user_data) for member, wish in members.items()}
    holdings = judge(claims, {topic: cluster.partitions[topic] for topic in wanted})
    shares = place_mixed(partitions_of(cluster, wanted), wanted, holdings)
    return {member: " ".join(map(str, share)) for member, share in shares.items()}


def fullest_to_emptiest(shares: Mapping[str, str]) -> int:
    sizes = [len(share.split()) for share in shares.values()]
    return max(sizes) - min(sizes)


def test_topics_few_want_are_placed_first() -> None:
    members = group({"a": "t u", "b": "t"})
    assert placed(topics("t:2 u:1"), members) == {"a": "t-1 u-0", "b": "t-0"}


def test_the_fullest_gives_to_the_emptiest() -> None:
    members = holding(group({"a": "t u", "b": "t", "c": "t"}), {"a": "t-0 t-1 t-2 t-3 u-0"})
    assert placed(topics("t:4 u:1"), members) == {"a": "t-3 u-0", "b": "t-0 t-2", "c": "t-1"}


def test_a_topic_a_member_left_is_taken_from_it() -> None:
    members = holding(group({"a": "u", "b": "t u"}), {"a": "t-0 t-1"})
    assert placed(topics("t:2 u:1"), members) == {"a": "u-0", "b": "t-0 t-1"}


def test_what_is_new_moves_before_what_members_hold() -> None:
    members = holding(group({"a": "t", "b": "t u", "c": "u v"}), {"a": "t-0", "b": "t-1", "c": "v-0 v-1"})
    assert placed(topics("t:2 u:1 v:2"), members) == {"a": "t-0", "b": "t-1 u-0", "c": "v-0 v-1"}


def test_a_partition_rather_moves_to_who_had_it_before() -> None:
    wishes = {"a": "t", "b": "t", "c": "t u"}
    held = {"a": "", "b": "t-0", "c": "t-0 t-1 t-2 u-0"}
    members = holding(group(wishes), held, a=5, b=4, c=5)
    assert placed(topics("t:3 u:1"), members) == {"a": "t-1", "b": "t-0", "c": "t-2 u-0"}


def test_it_does_not_move_to_who_had_it_before_but_no_longer_wants_it() -> None:
    members = holding(group({"a": "t", "b": "u", "c": "t u"}), {"b": "t-0", "c": "t-0 t-1 t-2"}, b=4, c=5)
    shares = placed(topics("t:3 u:1"), members)
    assert "t-0" not in shares["b"]
    assert fullest_to_emptiest(shares) == 1


def test_a_member_alone_with_its_topic_keeps_more_than_others() -> None:
    members = holding(group({"a": "t", "b": "u"}), {"a": "t-0", "b": "u-0"})
    assert placed(topics("t:1 u:4"), members) == {"a": "t-0", "b": "u-0 u-1 u-2 u-3"}


def test_two_partitions_of_a_topic_do_not_cross() -> None:
    members = holding(group({"a": "t u", "b": "t", "c": "u"}), {"a": "t-1 t-2 t-4 u-0 u-1 u-2"})
    # What is new goes to b and c, then from the fuller c to a; a gives back that one, not another.
    assert placed(topics("t:5 u:3"), members) == {"a": "t-1 t-4 u-2", "b": "t-0 t-2 t-3", "c": "u-0 u-1"}


def test_a_partition_that_moved_on_goes_home_when_another_takes_its_way_back() -> None:
    wishes = {"a": "t u", "b": "t u v", "c": "t u", "d": "u"}
    held = {"a": "t-2 t-3 t-4 u-0 u-1 u-2 u-3", "b": "t-0 t-1"}
    expected = {"a": "t-3 u-2 u-3", "b": "t-0 v-0 v-1 v-2", "c": "t-1 t-2 t-4", "d": "u-0 u-1"}
    assert placed(topics("t:5 u:4 v:3"), holding(group(wishes), held)) == expected
