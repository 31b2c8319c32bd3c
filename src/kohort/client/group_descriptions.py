"""Replies that describe a group, classic or KIP-848, in one form. No I/O."""

from kohort.assign.protocol import decode_assignment
from kohort.client.metadata import Node
from kohort.client.results import GroupInfo, MemberInfo
from kohort.model.errors import ProtocolError
from kohort.model.ids import GroupId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.consumer_group_describe import Assignment, Member
from kohort.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kohort.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember

# What consumers put into assignments; Connect and others write blobs of their own there.
_CONSUMER_PROTOCOL = ("consumer", "")


def classic_group(group: DescribedGroup, coordinator: Node) -> GroupInfo:
    readable = group.protocol_type in _CONSUMER_PROTOCOL
    return GroupInfo(
        group_id=GroupId(group.group_id),
        type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(member, readable) for member in group.members),
    )


def _classic_member(member: DescribedGroupMember, readable: bool) -> MemberInfo:
    return MemberInfo(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=read_assignment(member.member_assignment) if readable else (),
    )


def read_assignment(blob: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a member's assignment; none if it is empty or of a format that is not ours."""
    try:
        return tuple(sorted(decode_assignment(blob).partitions))
    except ProtocolError:
        return ()


def consumer_group(group: DescribedConsumerGroup, coordinator: Node) -> GroupInfo:
    return GroupInfo(
        group_id=GroupId(group.group_id),
        type="consumer",
        state=group.group_state,
        protocol_type="consumer",
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(_consumer_member(member) for member in group.members),
        epoch=group.group_epoch,
    )


def _consumer_member(member: Member) -> MemberInfo:
    return MemberInfo(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=_partitions(member.assignment),
        target=_partitions(member.target_assignment),
        epoch=member.member_epoch,
        subscribed=tuple(member.subscribed_topic_names),
    )


def _partitions(assignment: Assignment | None) -> tuple[TopicPartition, ...]:
    if assignment is None:
        return ()
    return tuple(
        sorted(
            TopicPartition(TopicName(topic.topic_name), Partition(number))
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )
