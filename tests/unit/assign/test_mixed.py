"""Placement for members that want different topics."""

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


def test_a_partition_rather_moves_to_who_had_it_before() -> None:
    wishes = {"a": "t", "b": "t", "c": "t u"}
    held = {"a": "", "b": "t-0", "c": "t-0 t-1 t-2 u-0"}
    members = holding(group(wishes), held, a=5, b=4, c=5)
    assert placed(topics("t:3 u:1"), members) == {"a": "t-1", "b": "t-0", "c": "t-2 u-0"}
