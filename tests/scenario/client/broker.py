"""What a broker's handlers do between the wire and the group core, for the requests of members."""

from collections.abc import Callable
from itertools import count
from typing import Any

from kohort.codec.schema import Message
from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    Heartbeat,
    Join,
    Leave,
    Leaver,
    Protocol,
    Request,
    Sync,
)
from kohort.groups.replies import CommitReply, HeartbeatReply, JoinReply, LeaveReply, SyncReply
from kohort.model.ids import (
    Generation,
    GroupId,
    InstanceId,
    MemberId,
    Partition,
    ReplyTo,
    TopicName,
)
from kohort.sim.node import SimulatedNode
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Answer = Callable[[Message], None]


class Broker:
    """Requests in, responses out when the core releases them."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self._waiting: dict[ReplyTo, Answer] = {}
        self._names = count(1)
        self._seen = 0

    def serve(self, client_id: str, request: Message, answer: Answer) -> None:
        name = ReplyTo(next(self._names))
        self._waiting[name] = answer
        self.node.handle(_command(name, client_id, request))
        self.deliver()

    def deliver(self) -> None:
        """Hand on what the core has answered since."""
        while self._seen < len(self.node.sent):
            reply = self.node.sent[self._seen]
            self._seen += 1
            self._waiting.pop(reply.reply_to)(_response(reply.body))


def _instance(given: str | None) -> InstanceId | None:
    return None if given is None else InstanceId(given)


def _command(name: ReplyTo, client_id: str, request: Message) -> Request:
    match request:
        case JoinGroupRequest():
            return Join(
                reply_to=name,
                group_id=GroupId(request.group_id),
                member_id=MemberId(request.member_id),
                instance_id=_instance(request.group_instance_id),
                protocol_type=request.protocol_type,
                protocols=tuple(Protocol(each.name, each.metadata) for each in request.protocols),
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                client_id=client_id,
                reason=request.reason,
                fresh_id=f"{name:04d}",
            )
        case SyncGroupRequest():
            return Sync(
                reply_to=name,
                group_id=GroupId(request.group_id),
                member_id=MemberId(request.member_id),
                generation=Generation(request.generation_id),
                instance_id=_instance(request.group_instance_id),
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments=tuple(
                    (MemberId(each.member_id), each.assignment) for each in request.assignments
                ),
            )
        case HeartbeatRequest():
            return Heartbeat(
                reply_to=name,
                group_id=GroupId(request.group_id),
                member_id=MemberId(request.member_id),
                generation=Generation(request.generation_id),
                instance_id=_instance(request.group_instance_id),
            )
        case LeaveGroupRequest():
            leavers = (
                Leaver(MemberId(each.member_id), _instance(each.group_instance_id), each.reason)
                for each in request.members
            )
            return Leave(reply_to=name, group_id=GroupId(request.group_id), leavers=tuple(leavers))
        case OffsetCommitRequest():
            return _commit(name, request)
        case _:
            raise AssertionError(f"no consumer sends {request}")


def _commit(name: ReplyTo, request: OffsetCommitRequest) -> CommitOffsets:
    rows = tuple(
        CommitRow(TopicName(topic.name), Partition(row.partition_index), row.committed_offset)
        for topic in request.topics
        for row in topic.partitions
    )
    return CommitOffsets(
        reply_to=name,
        group_id=GroupId(request.group_id),
        rows=rows,
        generation=Generation(request.generation_id_or_member_epoch),
        member_id=MemberId(request.member_id),
        instance_id=_instance(request.group_instance_id),
        version=9,
    )


def _response(body: Any) -> Message:  # noqa: ANN401 - one of the replies of the core
    match body:
        case JoinReply():
            return JoinGroupResponse(
                error_code=body.error,
                generation_id=body.generation,
                protocol_type=body.protocol_type,
                protocol_name=body.protocol_name,
                leader=body.leader,
                member_id=body.member_id,
                skip_assignment=body.skip_assignment,
                members=[
                    JoinGroupResponseMember(
                        member_id=each.member_id,
                        group_instance_id=each.instance_id,
                        metadata=each.metadata,
                    )
                    for each in body.members
                ],
            )
        case SyncReply():
            return SyncGroupResponse(
                error_code=body.error,
                protocol_type=body.protocol_type,
                protocol_name=body.protocol_name,
                assignment=body.assignment,
            )
        case HeartbeatReply():
            return HeartbeatResponse(error_code=body.error)
        case LeaveReply():
            left = [
                MemberResponse(
                    member_id=each.member_id, group_instance_id=each.instance_id, error_code=each.error
                )
                for each in body.members
            ]
            return LeaveGroupResponse(error_code=body.error, members=left)
        case CommitReply():
            rows = [
                OffsetCommitResponseTopic(
                    name=row.topic,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=row.partition, error_code=row.error)
                    ],
                )
                for row in body.rows
            ]
            return OffsetCommitResponse(topics=rows)
        case _:
            raise AssertionError(f"no consumer is answered with {body}")
