"""DeleteGroups (42): remove empty groups with their offsets. v2: flexible."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.groups.commands import DeleteGroups
from kohort.groups.replies import DeleteGroupsReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId
from kohort.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


async def handle(broker: "Broker", request: DeleteGroupsRequest, _context: Context) -> DeleteGroupsResponse:
    """A name that is repeated is taken once; what happens to one group says nothing about the others."""
    return DeleteGroupsResponse(
        results=[await _delete(broker, group) for group in dict.fromkeys(request.groups_names)]
    )


def refuse(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group, error_code=code) for group in request.groups_names]
    )


async def _delete(broker: "Broker", group: str) -> DeletableGroupResult:
    answer = broker.coordinator.ask(
        group, lambda reply_to: DeleteGroups(reply_to=reply_to, group_ids=(GroupId(group),))
    )
    reply = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(reply, DeleteGroupsReply)
    return DeletableGroupResult(group_id=group, error_code=reply.groups[0].error)
