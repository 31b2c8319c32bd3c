"""JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14): the requests of classic members."""

from kohort.groups.commands import Heartbeat, Join, Leave, Leaver, Protocol, Sync
from kohort.groups.replies import HeartbeatReply, JoinReply, LeaveReply, SyncReply
from kohort.groups.translation import RequestSender, instance_id
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, ReplyTo
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_FIRST_JOIN_WITH_NULL_NAME = 7
_FIRST_LEAVE_WITH_BATCH = 3


def protocols(request: JoinGroupRequest) -> tuple[Protocol, ...]:
    return tuple(Protocol(each.name, each.metadata) for each in request.protocols)


def join_command(request: JoinGroupRequest, sender: RequestSender, reply_to: ReplyTo, fresh_id: str) -> Join:
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


def join_response(reply: JoinReply, version: int) -> JoinGroupResponse:
    name = reply.protocol_name
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=name if version >= _FIRST_JOIN_WITH_NULL_NAME else name or "",
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


def sync_command(request: SyncGroupRequest, version: int, reply_to: ReplyTo) -> Sync:
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


def sync_response(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


def heartbeat_subject(
    request: HeartbeatRequest,
) -> tuple[tuple[GroupId, MemberId], Generation, InstanceId | None]:
    """Who is alive: what ``Shard.heartbeat`` answers without a command."""
    return (
        (GroupId(request.group_id), MemberId(request.member_id)),
        Generation(request.generation_id),
        instance_id(request.group_instance_id),
    )


def heartbeat_command(request: HeartbeatRequest, reply_to: ReplyTo) -> Heartbeat:
    (group, member), generation, instance = heartbeat_subject(request)
    return Heartbeat(
        reply_to=reply_to, group_id=group, member_id=member, generation=generation, instance_id=instance
    )


def heartbeat_response(reply: HeartbeatReply) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=reply.error)


def leave_command(request: LeaveGroupRequest, version: int, reply_to: ReplyTo) -> Leave:
    if version < _FIRST_LEAVE_WITH_BATCH:
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


def leave_response(reply: LeaveReply) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=reply.error,
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=member.error
            )
            for member in reply.members
        ],
    )
