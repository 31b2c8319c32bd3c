"""Quotas, and racks within them."""

from tests.unit.assign.notation import Group, group, partitions, topics

from kohort.assign.assignor import ClusterView
from kohort.assign.members import partitions_of
from kohort.assign.racks import rack_match
from kohort.assign.uniform import place_uniform
from kohort.model.ids import MemberId


def placed(cluster: ClusterView, members: Group, held: dict[str, str] | None = None) -> dict[str, str]:
    owned = {member: partitions((held or {}).get(member, "")) for member in members}
    wanted = sorted(cluster.partitions)
    shares = place_uniform(partitions_of(cluster, wanted), owned, rack_match(cluster, members, wanted))
    return {member: " ".join(map(str, share)) for member, share in shares.items()}


def test_a_member_over_its_quota_keeps_low_numbers_of_all_topics() -> None:
    members = group({"a": "", "b": ""})
    assert placed(topics("t:2 u:2"), members, {"a": "t-0 t-1 u-0 u-1"}) == {"a": "t-0 u-0", "b": "t-1 u-1"}


def test_no_more_members_keep_one_more_than_there_are_extras() -> None:
    members = group({"a": "", "b": "", "c": ""})
    held = {"a": "t-0 t-1", "b": "t-2 t-3"}
    assert placed(topics("t:4"), members, held) == {"a": "t-0 t-1", "b": "t-2", "c": "t-3"}


def test_the_extra_goes_to_who_keeps_it_rather_than_to_who_came_first() -> None:
    members = group({"a": "", "b": ""})
    assert placed(topics("t:3"), members, {"a": "t-0", "b": "t-1 t-2"}) == {"a": "t-0", "b": "t-1 t-2"}


def test_with_fewer_partitions_than_members_the_first_ones_get_them() -> None:
    members = group({"a": "", "b": "", "c": ""})
    assert placed(topics("t:2"), members) == {"a": "t-0", "b": "t-1", "c": ""}
    assert placed(topics("t:2"), members, {"c": "t-0"}) == {"a": "t-1", "b": "", "c": "t-0"}


def test_who_has_too_little_is_filled_in_turn() -> None:
    members = group({"a": "", "b": "", "c": ""})
    expected = {"a": "t-0 t-3 t-1", "b": "t-2 t-5 t-7", "c": "t-4 t-6 t-8"}
    assert placed(topics("t:9"), members, {"a": "t-0 t-3"}) == expected


def test_partitions_go_to_members_near_them() -> None:
    cluster = topics("t:4", {"t": "a b a b"})
    members = group({"c1": "", "c2": ""}, c1="b", c2="a")
    assert placed(cluster, members) == {"c1": "t-1 t-3", "c2": "t-0 t-2"}


def test_a_member_lets_go_of_what_is_far_from_it() -> None:
    cluster = topics("t:4", {"t": "a b a b"})
    members = group({"c1": "", "c2": ""}, c1="b", c2="a")
    assert placed(cluster, members, {"c1": "t-0 t-1", "c2": "t-2 t-3"}) == {"c1": "t-1 t-3", "c2": "t-2 t-0"}


def test_partitions_few_members_are_near_to_are_placed_first() -> None:
    cluster = topics("t:4", {"t": "a,b a,b a b"})
    members = group({"c1": "", "c2": ""}, c1="a", c2="b")
    assert placed(cluster, members) == {"c1": "t-2 t-0", "c2": "t-3 t-1"}


def test_balance_outranks_racks() -> None:
    cluster = topics("t:4", {"t": "a a a b"})
    members = group({"c1": "", "c2": ""}, c1="a", c2="b")
    assert placed(cluster, members) == {"c1": "t-0 t-1", "c2": "t-3 t-2"}


def test_the_extras_go_to_members_near_them_but_not_more_than_there_are() -> None:
    cluster = topics("t:5", {"t": "a a a a b"})
    members = group({"c1": "", "c2": "", "c3": ""}, c1="b", c2="a", c3="a")
    assert placed(cluster, members) == {"c1": "t-4", "c2": "t-0 t-2", "c3": "t-1 t-3"}
    one_extra = topics("t:4", {"t": "a a a b"})
    assert placed(one_extra, members) == {"c1": "t-3", "c2": "t-0 t-2", "c3": "t-1"}


def test_members_without_racks_keep_what_they_have_and_get_what_is_left() -> None:
    cluster = topics("t:4", {"t": "a b a b"})
    members = group({"c1": "", "c2": ""}, c2="a")
    assert placed(cluster, members, {"c1": "t-1"}) == {"c1": "t-1 t-3", "c2": "t-0 t-2"}


def test_racks_do_not_matter_where_every_partition_is_everywhere() -> None:
    cluster = topics("t:2", {"t": "a,b a,b"})
    members = group({"c1": "", "c2": ""}, c1="b", c2="a")
    assert rack_match(cluster, members, cluster.partitions) is None
    assert placed(cluster, members) == {"c1": "t-0", "c2": "t-1"}


def test_partitions_whose_racks_are_not_known_are_near_nobody() -> None:
    cluster = topics("t:2 u:1", {"t": "a"})
    members = group({"c1": "", "c2": ""}, c1="x", c2="a")
    match = rack_match(cluster, members, cluster.partitions)
    assert match is not None
    first, second, other = partitions("t-0 t-1 u-0")
    assert [match.near(MemberId("c2"), tp) for tp in (first, second, other)] == [True, False, False]
    assert placed(cluster, members) == {"c1": "t-1", "c2": "t-0 u-0"}
