"""ConsumerGroupDescribe (modern-groups 13)."""

from kohort.assign.server.group import TopicPartitions
from kohort.groups.commands import DescribeConsumerGroup
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ConsumerDescribeReply, DescribedConsumerMember, NamedAssignedTopic
from kohort.groups.topics import TopicCatalog
from kohort.model.errors import ErrorCode


def describe_consumer_group(command: DescribeConsumerGroup, out: Outcome) -> None:
    """A consumer group, or that there is none of this id."""
    group_id = command.group_id
    group = out.state.consumer(group_id)
    if not group_id:
        reply = ConsumerDescribeReply(group_id=group_id, error=ErrorCode.INVALID_GROUP_ID)
    elif group is None:
        is_classic = group_id in out.state.groups
        message = (
            f"Group {group_id} is not a consumer group." if is_classic else f"Group {group_id} not found."
        )
        reply = ConsumerDescribeReply(
            group_id=group_id, error=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message
        )
    else:
        reply = _describe(group, out)
    out.reply(command.reply_to, reply, out.rests_on(group_id))


def _describe(group: ConsumerGroup, out: Outcome) -> ConsumerDescribeReply:
    topics = out.state.topics
    return ConsumerDescribeReply(
        group_id=group.group_id,
        state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=group.preferred_assignor(out.state.settings.consumer_assignors),
        members=tuple(_member(group, member, topics) for member in group.members.values()),
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicCatalog) -> DescribedConsumerMember:
    details = member.details
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=details.instance_id,
        rack_id=details.rack_id,
        member_epoch=member.current.member_epoch,
        client_id=details.client_id,
        client_host=details.client_host,
        names=details.names,
        expression=details.expression,
        assignment=_named(member.current.assigned, topics),
        target=_named(group.target_of(member.member_id), topics),
        is_classic=member.is_classic,
    )


def _named(partitions: TopicPartitions, topics: TopicCatalog) -> tuple[NamedAssignedTopic, ...]:
    return tuple(
        NamedAssignedTopic(topic_id, topics.names[topic_id], tuple(sorted(partitions[topic_id])))
        for topic_id in sorted(partitions)
        if topic_id in topics.names
    )
