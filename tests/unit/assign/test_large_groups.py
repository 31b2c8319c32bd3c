"""Groups of a thousand members: seconds would be noticed here, minutes would time out."""

import pytest
from tests.unit.assign.notation import after

from kohort.assign.assignor import ClusterView
from kohort.assign.protocol import Subscription
from kohort.assign.registry import choose_assignors
from kohort.model.ids import MemberId, TopicName

TOPICS = tuple(TopicName(f"topic-{number:02}") for number in range(20))
CLUSTER = ClusterView(dict.fromkeys(TOPICS, 100))
UNIFORM = {MemberId(f"m{number:04}"): Subscription(TOPICS) for number in range(1000)}
MIXED = {
    member: Subscription(TOPICS[number % 20 :] + TOPICS[: number % 7])
    for number, member in enumerate(UNIFORM)
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize("members", [UNIFORM, MIXED], ids=["uniform", "mixed"])
def test_a_thousand_members_get_all_of_two_thousand_partitions(
    name: str, members: dict[MemberId, Subscription]
) -> None:
    (assignor,) = choose_assignors([name])
    first = dict(assignor.assign(CLUSTER, members))
    assert sum(len(share.partitions) for share in first.values()) == 2000
    tenth_left = {member: wish for number, (member, wish) in enumerate(members.items()) if number % 10}
    again = assignor.assign(CLUSTER, after(tenth_left, first))
    assert sum(len(share.partitions) for share in again.values()) == 2000
