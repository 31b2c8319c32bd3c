"""Heartbeat (12). The broker makes no command of it: ``Shard.heartbeat`` answers at once."""

from kohort.groups.commands import Heartbeat
from kohort.groups.replies import HeartbeatReply
from kohort.groups.translation import instance_id
from kohort.model.ids import Generation, GroupId, MemberId, ReplyTo
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def command(request: HeartbeatRequest, reply_to: ReplyTo) -> Heartbeat:
    return Heartbeat(
        reply_to=reply_to,
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        generation=Generation(request.generation_id),
        instance_id=instance_id(request.group_instance_id),
    )


def response(reply: HeartbeatReply) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=reply.error)
