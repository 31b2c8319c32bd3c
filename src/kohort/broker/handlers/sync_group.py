"""SyncGroup (14): the leader brings the assignment, everyone gets theirs.

Decided in ``kohort.groups.classic.sync``.
v1: throttle time; v3: static members; v4: flexible; v5: protocol type and name.
"""

from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.partition_runtime import then
from kohort.groups.commands import Sync
from kohort.groups.replies import SyncReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, ReplyTo
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


def handle(broker: "Broker", request: SyncGroupRequest, context: Context) -> Result:
    def command(reply_to: ReplyTo) -> Sync:
        return _command(request, context.version, reply_to)

    return then(broker.coordinator.ask(request.group_id, command), _response)


def refuse(_request: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


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
