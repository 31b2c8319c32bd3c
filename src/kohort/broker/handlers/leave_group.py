"""LeaveGroup (13): members go. Decided in ``kohort.groups.classic.leave``.

v1: throttle time; v3: several members, also by instance id; v4: flexible; v5: reasons.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.partition_runtime import then
from kohort.groups.commands import Leave, Leaver
from kohort.groups.replies import LeaveReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, InstanceId, MemberId, ReplyTo
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

_FIRST_VERSION_WITH_BATCH = 3


def handle(broker: "Broker", request: LeaveGroupRequest, context: Context) -> Result:
    def command(reply_to: ReplyTo) -> Leave:
        return _command(request, context.version, reply_to)

    return then(broker.coordinator.ask(request.group_id, command), _response)


def refuse(_request: LeaveGroupRequest, code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)


def _command(request: LeaveGroupRequest, version: int, reply_to: ReplyTo) -> Leave:
    if version < _FIRST_VERSION_WITH_BATCH:
        leavers: tuple[Leaver, ...] = (Leaver(MemberId(request.member_id)),)
    else:
        leavers = tuple(
            Leaver(
                MemberId(member.member_id),
                None if member.group_instance_id is None else InstanceId(member.group_instance_id),
                member.reason,
            )
            for member in request.members
        )
    return Leave(reply_to=reply_to, group_id=GroupId(request.group_id), leavers=leavers, version=version)


def _response(reply: LeaveReply) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=reply.error,
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=member.error
            )
            for member in reply.members
        ],
    )
