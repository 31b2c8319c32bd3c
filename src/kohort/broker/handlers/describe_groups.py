"""DescribeGroups (15): state and members of groups.

v1: throttle time; v3: authorized operations; v4: instance ids; v5: flexible;
v6: GROUP_ID_NOT_FOUND, error messages.
"""

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.groups.replies import DescribeReply
from kohort.groups.translation.admin import describe_command, described_group
from kohort.model.errors import ErrorCode
from kohort.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

# Bit set of AclOperation codes: what a client may do with a group where no authorizer is configured.
ALL_GROUP_OPERATIONS = 3400
_GROUP_PRICE, _MEMBER_PRICE = 10, 3


async def handle(
    broker: "BrokerState", request: DescribeGroupsRequest, context: Context
) -> DescribeGroupsResponse:
    """A group that is named again is answered once: its members may be many."""
    described = []
    slice_ = WorkSlice()
    for name in dict.fromkeys(request.groups):
        described.append(await _describe(broker, name, context.version))
        await slice_.spend(_GROUP_PRICE + _MEMBER_PRICE * len(described[-1].members))
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = ALL_GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=described)


def refuse(request: DescribeGroupsRequest, code: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group, error_code=code) for group in request.groups]
    )


async def _describe(broker: "BrokerState", group: str, version: int) -> DescribedGroup:
    answer = broker.coordinator.ask(group, partial(describe_command, group, version))
    reply = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(reply, DescribeReply)
    return described_group(group, reply)
