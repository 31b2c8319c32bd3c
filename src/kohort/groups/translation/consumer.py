"""ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69): the requests about consumer groups."""

from typing import NamedTuple

from kohort.groups.commands import ConsumerHeartbeat, DescribeConsumerGroup, OwnedTopic
from kohort.groups.replies import (
    ConsumerDescribeReply,
    ConsumerHeartbeatReply,
    DescribedConsumerMember,
    NamedAssignedTopic,
)
from kohort.groups.translation import RequestSender, instance_id
from kohort.model.ids import GroupId, MemberId, Partition, ReplyTo, TopicId, TopicName
from kohort.wire.messages import consumer_group_describe as describe
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_CLASSIC, _CONSUMER = 0, 1  # kinds of members


class ConsumerExtras(NamedTuple):
    """What a heartbeat needs beside its request: who sends it, and what is wrong with its expression.

    ``fresh_id`` is for a member that has none.
    """

    fresh_id: str = ""
    expression_error: str | None = None
    principal: str = ""


def heartbeat_command(
    request: ConsumerGroupHeartbeatRequest, sender: RequestSender, reply_to: ReplyTo, extras: ConsumerExtras
) -> ConsumerHeartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        reply_to=reply_to,
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        member_epoch=request.member_epoch,
        instance_id=instance_id(request.instance_id),
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        names=tuple(map(TopicName, names)) if names is not None else None,
        expression=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=tuple(map(_owned, owned)) if owned is not None else None,
        client_id=sender.client_id,
        client_host=sender.client_host,
        version=sender.version,
        fresh_id=extras.fresh_id,
        expression_error=extras.expression_error,
        principal=extras.principal,
    )


def _owned(topic: TopicPartitions) -> OwnedTopic:
    return OwnedTopic(TopicId(topic.topic_id), tuple(map(Partition, topic.partitions)))


def heartbeat_response(reply: ConsumerHeartbeatReply) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=reply.error,
        error_message=reply.error_message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None
        if reply.assignment is None
        else Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic.topic_id, partitions=list(topic.partitions))
                for topic in reply.assignment
            ]
        ),
    )


def describe_command(group: str, reply_to: ReplyTo) -> DescribeConsumerGroup:
    return DescribeConsumerGroup(reply_to=reply_to, group_id=GroupId(group))


def described_group(group: str, reply: ConsumerDescribeReply) -> describe.DescribedGroup:
    return describe.DescribedGroup(
        error_code=reply.error,
        error_message=reply.error_message,
        group_id=group,
        group_state=reply.state,
        group_epoch=reply.group_epoch,
        assignment_epoch=reply.assignment_epoch,
        assignor_name=reply.assignor,
        members=list(map(_member, reply.members)),
    )


def _member(member: DescribedConsumerMember) -> describe.Member:
    return describe.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.names),
        subscribed_topic_regex=member.expression,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(topics: tuple[NamedAssignedTopic, ...]) -> describe.Assignment:
    return describe.Assignment(
        topic_partitions=[
            describe.TopicPartitions(
                topic_id=each.topic_id, topic_name=each.topic, partitions=list(each.partitions)
            )
            for each in topics
        ]
    )
