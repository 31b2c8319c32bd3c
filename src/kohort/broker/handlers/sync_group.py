"""SyncGroup (14): the leader brings the assignment, everyone gets theirs.

Decided in ``kohort.groups.classic.sync``.
v1: throttle time; v3: static members; v4: flexible; v5: protocol type and name.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.shard import then
from kohort.groups.commands import Sync
from kohort.groups.replies import SyncReply
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, ReplyTo
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


def handle(broker: "Broker", request: SyncGroupRequest, context: Context) -> Result:
    try:
        shard = broker.coordinator.shard_of(request.group_id)
    except RefusedError as error:
        return refuse(request, _while_not_served(request, context.version, error.code))
    return then(shard.ask(lambda reply_to: _command(request, context.version, reply_to)), _response)


def refuse(_request: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def _while_not_served(request: SyncGroupRequest, version: int, code: ErrorCode) -> ErrorCode:
    """What is wrong with the request itself comes first. While loading it is 27, which makes clients rejoin:
    Java's takes 14 in this reply for a fatal error."""
    if version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return code
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.REBALANCE_IN_PROGRESS if loading else code


def _command(request: SyncGroupRequest, version: int, reply_to: ReplyTo) -> Sync:
    instance = request.group_instance_id
    return Sync(
        reply_to=reply_to,
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        generation=Generation(request.generation_id),
        instance_id=InstanceId(instance) if instance is not None else None,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((MemberId(each.member_id), each.assignment) for each in request.assignments),
        version=version,
    )


def _response(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
