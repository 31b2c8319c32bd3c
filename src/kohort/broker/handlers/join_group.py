"""JoinGroup (11): become a member, and wait until everyone has. Decided in ``kohort.groups.classic.join``.

v1: rebalance timeout; v2: throttle time; v4: member ids are handed out first; v5: static members;
v6: flexible; v7: protocol type, nullable protocol name; v8: reason; v9: skip assignment.
"""

import uuid
from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.partition_runtime import then
from kohort.groups.commands import Join, Protocol
from kohort.groups.replies import JoinReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, InstanceId, MemberId, ReplyTo
from kohort.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

_FIRST_VERSION_WITH_NULL_NAME = 7


def handle(broker: "Broker", request: JoinGroupRequest, context: Context) -> Result:
    protocols = tuple(Protocol(each.name, each.metadata) for each in request.protocols)

    def command(reply_to: ReplyTo) -> Join:
        return _command(request, context, protocols, reply_to)

    def respond(reply: JoinReply) -> JoinGroupResponse:
        return _response(reply, context.version)

    if not broker.coordinator.has_memory_for(request.group_id, request.member_id, protocols):
        return refuse(request, ErrorCode.GROUP_MAX_SIZE_REACHED)
    return then(broker.coordinator.ask(request.group_id, command), respond)


def refuse(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name="", member_id=request.member_id)


def _command(
    request: JoinGroupRequest, context: Context, protocols: tuple[Protocol, ...], reply_to: ReplyTo
) -> Join:
    instance = request.group_instance_id
    return Join(
        reply_to=reply_to,
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        instance_id=InstanceId(instance) if instance is not None else None,
        protocol_type=request.protocol_type,
        protocols=protocols,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        client_id=context.client_id,
        client_host=context.client_host,
        reason=request.reason,
        version=context.version,
        fresh_id="" if request.member_id else str(uuid.uuid4()),
    )


def _response(reply: JoinReply, version: int) -> JoinGroupResponse:
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
