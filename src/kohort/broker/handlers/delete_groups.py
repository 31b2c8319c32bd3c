"""DeleteGroups (42): remove empty groups with their offsets. v2: flexible."""

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.groups.replies import DeleteGroupsReply
from kohort.groups.translation.admin import delete_command, deleted_group
from kohort.model.errors import ErrorCode
from kohort.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE = 20


async def handle(
    broker: "BrokerState", request: DeleteGroupsRequest, _context: Context
) -> DeleteGroupsResponse:
    """A name that is repeated is taken once; what happens to one group says nothing about the others."""
    response = DeleteGroupsResponse()
    slice_ = WorkSlice()
    for group in dict.fromkeys(request.groups_names):
        response.results.append(await _delete(broker, group))
        await slice_.spend(_PRICE)
    return response


def refuse(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group, error_code=code) for group in request.groups_names]
    )


async def _delete(broker: "BrokerState", group: str) -> DeletableGroupResult:
    answer = broker.coordinator.ask(group, partial(delete_command, group))
    reply = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(reply, DeleteGroupsReply)
    return deleted_group(reply.groups[0])
