"""JoinGroup (11)."""

from kohort.groups.commands import Join, Protocol
from kohort.groups.replies import JoinReply
from kohort.groups.translation import RequestSender, instance_id
from kohort.model.ids import GroupId, MemberId, ReplyTo
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

_FIRST_VERSION_WITH_NULL_NAME = 7


def protocols(request: JoinGroupRequest) -> tuple[Protocol, ...]:
    return tuple(Protocol(each.name, each.metadata) for each in request.protocols)


def command(request: JoinGroupRequest, sender: RequestSender, reply_to: ReplyTo, fresh_id: str) -> Join:
    """``fresh_id`` is the id for a member that has none."""
    return Join(
        reply_to=reply_to,
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        instance_id=instance_id(request.group_instance_id),
        protocol_type=request.protocol_type,
        protocols=protocols(request),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        client_id=sender.client_id,
        client_host=sender.client_host,
        reason=request.reason,
        version=sender.version,
        fresh_id=fresh_id,
    )


def response(reply: JoinReply, version: int) -> JoinGroupResponse:
    name = reply.protocol_name
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=name if version >= _FIRST_VERSION_WITH_NULL_NAME else name or "",
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in reply.members
        ],
    )
