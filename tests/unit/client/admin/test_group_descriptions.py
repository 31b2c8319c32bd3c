"""Groups of both kinds in one form."""

import struct

import pytest

from kohort.client.admin.groups import classic_group, consumer_group, read_assignment
from kohort.client.metadata import Node
from kohort.codec.compiled import encode
from kohort.model.ids import NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.consumer_group_describe import Assignment, Member, TopicPartitions
from kohort.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from kohort.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from kohort.wire.messages.consumer_protocol import TopicPartition as AssignedTopic
from kohort.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember

NODE = Node(NodeId(1), "host", 9001)


def tp(topic: str, number: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), Partition(number))


def blob(version: int, *partitions: int) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedTopic(topic="t", partitions=list(partitions))]
    )
    return struct.pack(">h", version) + encode(assignment, min(version, 3))


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_an_assignment_is_read_in_any_version(version: int) -> None:
    assert read_assignment(blob(version, 2, 0)) == (tp("t", 0), tp("t", 2))


@pytest.mark.parametrize("bytes_", [b"", b"\0", b"\0\0junk", b"\xff\xff\0\0\0\0"])
def test_what_is_no_assignment_shows_no_partitions(bytes_: bytes) -> None:
    assert read_assignment(bytes_) == ()


def test_a_classic_group_shows_what_its_members_hold() -> None:
    member = DescribedGroupMember(
        member_id="m", group_instance_id="i", client_id="c", client_host="/h", member_assignment=blob(3, 1)
    )
    group = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )
    found = classic_group(group, NODE)
    assert (found.type, found.assignor, found.epoch) == ("classic", "range", None)
    assert found.members[0].assignment == (tp("t", 1),)
    assert found.members[0].instance_id == "i"


def test_assignments_of_other_protocols_are_not_guessed_at() -> None:
    member = DescribedGroupMember(member_id="m", member_assignment=blob(3, 1))
    group = DescribedGroup(group_id="g", protocol_type="connect", members=[member])
    assert classic_group(group, NODE).members[0].assignment == ()


def test_a_kip_848_member_shows_what_it_holds_and_what_it_is_on_its_way_to() -> None:
    held = Assignment(topic_partitions=[TopicPartitions(topic_name="t", partitions=[1, 0])])
    target = Assignment(topic_partitions=[TopicPartitions(topic_name="t", partitions=[0])])
    member = Member(
        member_id="m", member_epoch=4, assignment=held, target_assignment=target, subscribed_topic_names=["t"]
    )
    nobody = Member(member_id="n")
    group = ConsumerGroup(group_id="g", group_state="Reconciling", group_epoch=5, members=[member, nobody])
    found = consumer_group(group, NODE)
    assert (found.type, found.epoch) == ("consumer", 5)
    assert found.members[0].assignment == (tp("t", 0), tp("t", 1))
    assert found.members[0].target == (tp("t", 0),)
    assert found.members[0].epoch == 4
    assert found.members[1].assignment == ()
