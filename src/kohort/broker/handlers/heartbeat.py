"""Heartbeat (12): a member is alive, and hears whether it must rejoin.

v1: throttle time; v3: static members; v4: flexible.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.recognition import Grounds, SameRequest
from kohort.groups.translation.classic import heartbeat_subject
from kohort.model.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState


def handle(broker: "BrokerState", request: HeartbeatRequest, _context: Context) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=broker.coordinator.heartbeat(*heartbeat_subject(request)))


def remember(
    broker: "BrokerState",
    read: tuple[bytes, int, HeartbeatRequest],
    _context: Context,
    grounds: Grounds,
    write: Callable[[HeartbeatResponse], bytes],
) -> SameRequest[ErrorCode]:
    """What is kept of a frame with the request in it."""
    frame, _, request = read
    heartbeat, subject = broker.coordinator.heartbeat, heartbeat_subject(request)
    return SameRequest(
        frame, grounds, lambda _: heartbeat(*subject), lambda code: write(refuse(request, code))
    )


def refuse(_request: HeartbeatRequest, code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)
