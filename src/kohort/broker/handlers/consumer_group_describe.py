"""ConsumerGroupDescribe (69): epochs, members and assignments of consumer groups (KIP-848).

v1: the kind of each member. A group of another kind is GROUP_ID_NOT_FOUND: admin clients then ask
DescribeGroups.
"""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.group_configs import is_enabled
from kohort.broker.handlers.describe_groups import ALL_GROUP_OPERATIONS
from kohort.broker.heavy_work import Slice
from kohort.groups.commands import DescribeConsumerGroup
from kohort.groups.replies import ConsumerDescribeReply, DescribedConsumerMember, NamedAssignedTopic
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId
from kohort.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

_GROUP_PRICE, _MEMBER_PRICE = 10, 5
_CLASSIC, _CONSUMER = 0, 1  # kinds of members


async def handle(
    broker: "Broker", request: ConsumerGroupDescribeRequest, _context: Context
) -> ConsumerGroupDescribeResponse:
    """A group that is named again is answered once: its members may be many."""
    if not is_enabled(broker.configs):
        return refuse(request, ErrorCode.UNSUPPORTED_VERSION)
    described = []
    slice_ = Slice()
    for name in dict.fromkeys(request.group_ids):
        group = await _describe(broker, name)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = ALL_GROUP_OPERATIONS
        described.append(group)
        if slice_.is_full(_GROUP_PRICE + _MEMBER_PRICE * len(group.members)):
            await asyncio.sleep(0)
    return ConsumerGroupDescribeResponse(groups=described)


def refuse(request: ConsumerGroupDescribeRequest, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group, error_code=code) for group in request.group_ids]
    )


async def _describe(broker: "Broker", group: str) -> DescribedGroup:
    if not group:
        return DescribedGroup(group_id=group, error_code=ErrorCode.INVALID_GROUP_ID)
    answer = broker.coordinator.ask(
        group, lambda reply_to: DescribeConsumerGroup(reply_to=reply_to, group_id=GroupId(group))
    )
    reply = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(reply, ConsumerDescribeReply)
    return DescribedGroup(
        error_code=reply.error,
        error_message=reply.error_message,
        group_id=group,
        group_state=reply.state,
        group_epoch=reply.group_epoch,
        assignment_epoch=reply.assignment_epoch,
        assignor_name=reply.assignor,
        members=list(map(_member, reply.members)),
    )


def _member(member: DescribedConsumerMember) -> Member:
    return Member(
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


def _assignment(topics: tuple[NamedAssignedTopic, ...]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=each.topic_id, topic_name=each.topic, partitions=list(each.partitions))
            for each in topics
        ]
    )
