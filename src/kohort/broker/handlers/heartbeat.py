"""Heartbeat (12): a member is alive, and hears whether it must rejoin.

v1: throttle time; v3: static members; v4: flexible.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.recognition import Grounds, SeenHeartbeat
from kohort.groups.translation import instance_id
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, MemberId
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


def handle(broker: "Broker", request: HeartbeatRequest, _context: Context) -> HeartbeatResponse:
    return HeartbeatResponse(
        error_code=broker.coordinator.heartbeat(
            (GroupId(request.group_id), MemberId(request.member_id)),
            Generation(request.generation_id),
            instance_id(request.group_instance_id),
        )
    )


def remember(
    broker: "Broker",
    read: tuple[bytes, int, HeartbeatRequest],
    _context: Context,
    grounds: Grounds,
    write: Callable[[HeartbeatResponse], bytes],
) -> SeenHeartbeat:
    """What is kept of a frame with the request in it."""
    frame, _, request = read
    return SeenHeartbeat(
        frame, request, broker.coordinator, grounds, lambda code: write(refuse(request, code))
    )


def refuse(_request: HeartbeatRequest, code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)
