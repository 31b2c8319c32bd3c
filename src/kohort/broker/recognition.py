"""Recognise a heartbeat that a connection has sent before.

A member sends the same bytes every few seconds; only the correlation id differs. What was read from them
once (who, in which generation) is kept with the connection, and so are the bytes of the replies. The answer
is decided each time, by the same function as ever: a frame that is recognised is not read, and its reply is
not written, a second time. Nothing else is saved.

Only where nothing stands between a frame and its handler: with interceptors, an authorizer or a session that
expires, every frame is read. When an interceptor comes, ``Dispatch.forget_seen`` drops all that is kept.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId

if TYPE_CHECKING:
    from kohort.broker.coordinator import GroupCoordinator
    from kohort.wire.messages.heartbeat import HeartbeatRequest

# A request is a frame of: size, API and version (8 bytes), correlation id (4), client id and body.
_ID, _AFTER_ID = 8, 12


class Validity:
    """Shared by all that was kept at one time; ``holds`` until it must be forgotten."""

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds = True


class SeenHeartbeat:
    """The heartbeat that a connection has sent last. ``write`` makes the whole frame of a reply to it."""

    __slots__ = ("_coordinator", "_end", "_replies", "_said", "_size", "_start", "_validity", "_write")

    def __init__(
        self,
        frame: bytes,
        request: "HeartbeatRequest",
        coordinator: "GroupCoordinator",
        validity: Validity,
        write: Callable[[ErrorCode], bytes],
    ) -> None:
        instance = request.group_instance_id
        self._said = (
            (GroupId(request.group_id), MemberId(request.member_id)),
            Generation(request.generation_id),
            InstanceId(instance) if instance is not None else None,
        )
        self._size = 4 + len(frame)
        self._start = len(frame).to_bytes(4, "big") + frame[: _ID - 4]
        self._end = frame[_AFTER_ID - 4 :]
        self._coordinator = coordinator
        self._validity = validity
        self._write = write
        self._replies: dict[ErrorCode, tuple[bytes, bytes]] = {}  # before the correlation id, and after it

    def answer(self, data: bytes) -> tuple[list[bytes], int]:
        """Replies to the frames at the start of ``data`` that are this heartbeat again, and their length."""
        replies: list[bytes] = []
        position = 0
        while (
            data.startswith(self._end, position + _AFTER_ID)
            and data.startswith(self._start, position)
            and self._validity.holds
        ):
            error = self._coordinator.heartbeat(*self._said)
            before, after = self._replies.get(error) or self._reply(error)
            replies.append(before + data[position + _ID : position + _AFTER_ID] + after)
            position += self._size
        return replies, position

    def _reply(self, error: ErrorCode) -> tuple[bytes, bytes]:
        frame = self._write(error)
        reply = self._replies[error] = frame[:4], frame[8:]
        return reply
