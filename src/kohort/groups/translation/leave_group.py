"""LeaveGroup (13)."""

from kohort.groups.commands import Leave, Leaver
from kohort.groups.replies import LeaveReply
from kohort.groups.translation import instance_id
from kohort.model.ids import GroupId, MemberId, ReplyTo
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_FIRST_VERSION_WITH_BATCH = 3


def command(request: LeaveGroupRequest, version: int, reply_to: ReplyTo) -> Leave:
    if version < _FIRST_VERSION_WITH_BATCH:
        leavers: tuple[Leaver, ...] = (Leaver(MemberId(request.member_id)),)
    else:
        leavers = tuple(
            Leaver(
                MemberId(member.member_id),
                instance_id(member.group_instance_id),
                member.reason,
            )
            for member in request.members
        )
    return Leave(reply_to=reply_to, group_id=GroupId(request.group_id), leavers=leavers, version=version)


def response(reply: LeaveReply) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=reply.error,
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=member.error
            )
            for member in reply.members
        ],
    )
