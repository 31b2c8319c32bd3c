"""What a broker's handlers do between the wire and the group core, for the requests of members."""

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from kohort.codec.schema import Message
from kohort.groups.commands import CommitOffsets, Heartbeat, Join, Leave, Request, Sync
from kohort.groups.replies import CommitReply, HeartbeatReply, JoinReply, LeaveReply, SyncReply
from kohort.groups.translation import classic, offsets
from kohort.model.ids import ReplyTo, TopicName
from kohort.sim.node import SimulatedNode
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.sync_group import SyncGroupRequest

Answer = Callable[[Message], None]


class Broker:
    """Requests in, responses out when the core releases them."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self._waiting: dict[ReplyTo, tuple[Request, Answer]] = {}
        self._names = count(1)
        self._seen = 0

    def serve(self, client_id: str, request: Message, answer: Answer) -> None:
        name = ReplyTo(next(self._names))
        command = _command(name, client_id, request)
        self._waiting[name] = command, answer
        self.node.handle(command)
        self.deliver()

    def deliver(self) -> None:
        """Hand on what the core has answered since."""
        while self._seen < len(self.node.sent):
            reply = self.node.sent[self._seen]
            self._seen += 1
            command, answer = self._waiting.pop(reply.reply_to)
            answer(_response(command, reply.body))


class _Sender(NamedTuple):
    version: int
    client_id: str
    client_host: str = "/127.0.0.1"


def _command(name: ReplyTo, client_id: str, request: Message) -> Request:
    match request:
        case JoinGroupRequest():
            return classic.join_command(request, _Sender(9, client_id), name, f"{name:04d}")
        case SyncGroupRequest():
            return classic.sync_command(request, 5, name)
        case HeartbeatRequest():
            return classic.heartbeat_command(request, name)
        case LeaveGroupRequest():
            return classic.leave_command(request, 5, name)
        case OffsetCommitRequest():
            rows = [
                offsets.commit_row(TopicName(topic.name), topic, part)
                for topic in request.topics
                for part in topic.partitions
            ]
            return offsets.commit_command(request, 9, rows, name)
        case _:
            raise AssertionError(f"no consumer sends {request}")


def _response(request: Request, body: Any) -> Message:  # noqa: ANN401 - one of the replies of the core
    match request, body:
        case Join(), JoinReply():
            return classic.join_response(body, 9)
        case Sync(), SyncReply():
            return classic.sync_response(body)
        case Heartbeat(), HeartbeatReply():
            return classic.heartbeat_response(body)
        case Leave(), LeaveReply():
            return classic.leave_response(body)
        case CommitOffsets(rows=rows), CommitReply():
            results = [(row, result.error) for row, result in zip(rows, body.rows, strict=True)]
            return offsets.commit_response(OffsetCommitResponse(), results, 9)
        case _:
            raise AssertionError(f"no consumer is answered with {body}")
