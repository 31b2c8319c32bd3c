"""ListGroups (16): the groups of this broker. v1: throttle time; v3: flexible; v4: states; v5: types."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import Slice
from kohort.groups.commands import ListGroups
from kohort.groups.replies import ListReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo
from kohort.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

_SHARD_PRICE, _GROUP_PRICE = 20, 3


async def handle(broker: "Broker", request: ListGroupsRequest, _context: Context) -> ListGroupsResponse:
    def command(reply_to: ReplyTo) -> ListGroups:
        return ListGroups(
            reply_to=reply_to, states=tuple(request.states_filter), types=tuple(request.types_filter)
        )

    response = ListGroupsResponse()
    slice_ = Slice()
    for answer in broker.coordinator.ask_all(command):
        reply = await answer if isinstance(answer, Awaitable) else answer
        assert isinstance(reply, ListReply)
        if reply.error:
            return refuse(request, reply.error)  # a part of the groups is not an answer
        response.groups += [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for group in reply.groups
        ]
        if slice_.is_full(_SHARD_PRICE + _GROUP_PRICE * len(reply.groups)):
            await asyncio.sleep(0)
    return response


def refuse(_request: ListGroupsRequest, code: ErrorCode) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code)
