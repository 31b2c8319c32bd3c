"""SyncGroup (14)."""

from kohort.groups.commands import Sync
from kohort.groups.replies import SyncReply
from kohort.groups.translation import instance_id
from kohort.model.ids import Generation, GroupId, MemberId, ReplyTo
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def command(request: SyncGroupRequest, version: int, reply_to: ReplyTo) -> Sync:
    return Sync(
        reply_to=reply_to,
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        generation=Generation(request.generation_id),
        instance_id=instance_id(request.group_instance_id),
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((MemberId(each.member_id), each.assignment) for each in request.assignments),
        version=version,
    )


def response(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
