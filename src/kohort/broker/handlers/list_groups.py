"""ListGroups (16): the groups of this broker. v1: throttle time; v3: flexible; v4: states; v5: types."""

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.groups.replies import ListReply
from kohort.groups.translation.admin import list_command, listed_group
from kohort.model.errors import ErrorCode
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_SHARD_PRICE, _GROUP_PRICE = 20, 3


async def handle(broker: "BrokerState", request: ListGroupsRequest, _context: Context) -> ListGroupsResponse:
    response = ListGroupsResponse()
    slice_ = WorkSlice()
    for answer in broker.coordinator.ask_all(partial(list_command, request)):
        reply = await answer if isinstance(answer, Awaitable) else answer
        assert isinstance(reply, ListReply)
        if reply.error:
            return refuse(request, reply.error)  # a part of the groups is not an answer
        response.groups += map(listed_group, reply.groups)
        await slice_.spend(_SHARD_PRICE + _GROUP_PRICE * len(reply.groups))
    return response


def refuse(_request: ListGroupsRequest, code: ErrorCode) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code)
