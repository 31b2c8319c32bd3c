"""JoinGroup (11): become a member, and wait until everyone has. Decided in ``kohort.groups.classic.join``.

v1: rebalance timeout; v2: throttle time; v4: member ids are handed out first; v5: static members;
v6: flexible; v7: protocol type, nullable protocol name; v8: reason; v9: skip assignment.
"""

import uuid
from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.partition_runtime import then
from kohort.groups.commands import Join
from kohort.groups.replies import JoinReply
from kohort.groups.translation.classic import join_command, join_response, protocols
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(broker: "BrokerState", request: JoinGroupRequest, context: Context) -> Result:
    def join(reply_to: ReplyTo) -> Join:
        return join_command(request, context, reply_to, "" if request.member_id else str(uuid.uuid4()))

    def respond(reply: JoinReply) -> JoinGroupResponse:
        return join_response(reply, context.version)

    if not broker.coordinator.has_memory_for(request.group_id, request.member_id, protocols(request)):
        return refuse(request, ErrorCode.GROUP_MAX_SIZE_REACHED)
    return then(broker.coordinator.ask(request.group_id, join), respond)


def refuse(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name="", member_id=request.member_id)
