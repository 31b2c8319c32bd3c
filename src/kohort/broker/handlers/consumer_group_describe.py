"""ConsumerGroupDescribe (69): epochs, members and assignments of consumer groups (KIP-848).

v1: the kind of each member. A group of another kind is GROUP_ID_NOT_FOUND: admin clients then ask
DescribeGroups.
"""

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.handlers.describe_groups import ALL_GROUP_OPERATIONS
from kohort.broker.heavy_work import WorkSlice
from kohort.groups.replies import ConsumerDescribeReply
from kohort.groups.translation.consumer import describe_command, described_group
from kohort.model.errors import ErrorCode
from kohort.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_GROUP_PRICE, _MEMBER_PRICE = 10, 5


async def handle(
    broker: "BrokerState", request: ConsumerGroupDescribeRequest, _context: Context
) -> ConsumerGroupDescribeResponse:
    """A group that is named again is answered once: its members may be many."""
    if not broker.features.has_consumer_groups:
        return refuse(request, ErrorCode.UNSUPPORTED_VERSION)
    described = []
    slice_ = WorkSlice()
    for name in dict.fromkeys(request.group_ids):
        group = await _describe(broker, name)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = ALL_GROUP_OPERATIONS
        described.append(group)
        await slice_.spend(_GROUP_PRICE + _MEMBER_PRICE * len(group.members))
    return ConsumerGroupDescribeResponse(groups=described)


def refuse(request: ConsumerGroupDescribeRequest, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group, error_code=code) for group in request.group_ids]
    )


async def _describe(broker: "BrokerState", group: str) -> DescribedGroup:
    if not group:
        return DescribedGroup(group_id=group, error_code=ErrorCode.INVALID_GROUP_ID)
    answer = broker.coordinator.ask(group, partial(describe_command, group))
    reply = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(reply, ConsumerDescribeReply)
    return described_group(group, reply)
