"""LeaveGroup (13): members go. Decided in ``kohort.groups.classic.leave``.

v1: throttle time; v3: several members, also by instance id; v4: flexible; v5: reasons.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.partition_runtime import then
from kohort.groups.commands import Leave
from kohort.groups.translation.classic import leave_command, leave_response
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(broker: "BrokerState", request: LeaveGroupRequest, context: Context) -> Result:
    def leave(reply_to: ReplyTo) -> Leave:
        return leave_command(request, context.version, reply_to)

    return then(broker.coordinator.ask(request.group_id, leave), leave_response)


def refuse(_request: LeaveGroupRequest, code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
