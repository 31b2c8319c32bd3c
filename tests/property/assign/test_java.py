"""The same results as Apache Kafka 4.2's own assignors, from a recording of what they answered.

The recording leaves out what the specification decides otherwise, in groups with mixed subscriptions:

* Java gives a partition back to a previous owner that no longer subscribes to it, or fails on one that is set
  aside: so all members are of one generation there.
* Java's ``cooperative-sticky`` gives a partition to one of two members that claim it in one generation, while
  the other may still read it: so there are no such claims there.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.property.assign.judgement import Result

from kohort.assign.assignor import ClusterView
from kohort.assign.protocol import Subscription, decode_subscription
from kohort.assign.registry import choose_assignors
from kohort.model.ids import InstanceId, MemberId, TopicName

RECORDED = [
    line.split("\t") for line in Path(__file__).with_name("java_results.tsv").read_text().splitlines()
]
ANY_OF_THREE = 158
"""Here p3-1, p3-3 or p3-4 may go back: Java takes one in hash order, the specification the smallest."""


def cluster_of(text: str) -> ClusterView:
    topics = [topic.split(":") for topic in text.split(",")]
    racks = {
        TopicName(name): [frozenset(place.replace(".", "")) for place in places.split("|")]
        for name, places in topics
    }
    return ClusterView({name: len(places) for name, places in racks.items()}, racks)


def members_of(text: str) -> dict[MemberId, Subscription]:
    told = (member.split(";") for member in text.split(" "))
    return {
        MemberId(member): replace(
            decode_subscription(bytes.fromhex(blob)), instance_id=InstanceId(instance) if instance else None
        )
        for member, instance, blob in told
    }


def shown(result: Result) -> dict[str, list[str]]:
    return {member: sorted(map(str, share.partitions)) for member, share in result.items()}


def parsed(answer: str) -> dict[str, list[str]]:
    shares = dict(share.split("=") for share in answer.split(" "))
    return {member: sorted(filter(None, share.split(","))) for member, share in shares.items()}


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_every_recorded_group_is_assigned_as_java_assigned_it(name: str) -> None:
    groups = [line for line in RECORDED if line[0] == name and line is not RECORDED[ANY_OF_THREE]]
    assert len(groups) >= 79
    for _, topics, members, answer in groups:
        (assignor,) = choose_assignors([name])
        assert shown(dict(assignor.assign(cluster_of(topics), members_of(members)))) == parsed(answer)


def test_where_any_of_three_may_go_back_the_smallest_does() -> None:
    name, topics, members, answer = RECORDED[ANY_OF_THREE]
    (assignor,) = choose_assignors([name])
    ours, java = shown(dict(assignor.assign(cluster_of(topics), members_of(members)))), parsed(answer)
    differing = {member: (ours[member], java[member]) for member in ours if ours[member] != java[member]}
    assert differing == {
        "m0": (["p0-5", "p2-2", "p3-1", "p3-5", "p4-3"], ["p0-5", "p2-2", "p3-4", "p3-5", "p4-3"]),
        "m1": (
            ["p0-4", "p3-0", "p3-2", "p3-3", "p3-4", "p3-6"],
            ["p0-4", "p3-0", "p3-1", "p3-2", "p3-3", "p3-6"],
        ),
    }
