"""SyncGroup (14): the leader brings the assignment, everyone gets theirs.

Decided in ``kohort.groups.classic.sync``.
v1: throttle time; v3: static members; v4: flexible; v5: protocol type and name.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.partition_runtime import then
from kohort.groups.commands import Sync
from kohort.groups.translation.classic import sync_command, sync_response
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(broker: "BrokerState", request: SyncGroupRequest, context: Context) -> Result:
    def sync(reply_to: ReplyTo) -> Sync:
        return sync_command(request, context.version, reply_to)

    return then(broker.coordinator.ask(request.group_id, sync), sync_response)


def refuse(_request: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
