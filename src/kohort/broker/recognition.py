"""Recognise a request that a connection has sent before.

A member sends the same bytes every few seconds; only the correlation id differs. What was read from them
once (who, in which generation) is kept with the connection, and so are the bytes of the replies. The answer
is decided each time, by the same functions as ever: a frame that is recognised is not read, and its reply is
not written, a second time. Nothing else is saved.

Only where a frame goes from its connection to its handler: with interceptors, or with a session that
expires, every frame is read. An authorizer is asked each time what it was asked when the frame was read, and
a request that it refused is not kept. When an interceptor comes, ``Dispatch.forget_seen`` drops all that is
kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kohort.groups.commands import ConsumerHeartbeat
from kohort.groups.replies import ConsumerHeartbeatReply
from kohort.groups.translation import instance_id
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, MemberId, ReplyTo

if TYPE_CHECKING:
    from kohort.broker.coordinator import GroupCoordinator
    from kohort.security.acls import Authorizer, Question
    from kohort.wire.messages.heartbeat import HeartbeatRequest

R = TypeVar("R")

# A request is a frame of: size, API and version (8 bytes), correlation id (4), client id and body.
ID, AFTER_ID = 8, 12

Unpark = Callable[[bytes], None]  # how a reply that was waited for gets to its connection


class Validity:
    """Shared by all that was kept at one time; ``holds`` until it must be forgotten."""

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds = True


class Grounds:
    """Why a frame that was read once need not be read again: nothing came between, it is still allowed."""

    __slots__ = ("_authorizer", "_questions", "_validity", "may_answer")

    def __init__(
        self,
        validity: Validity,
        may_answer: Callable[[], bool],
        authorizer: "Authorizer | None",
        questions: "Sequence[Question]",
    ) -> None:
        self._validity = validity
        self.may_answer = may_answer  # what is in memory, which is looked at when the answer is made
        self._authorizer = authorizer
        self._questions = questions

    def hold(self) -> bool:
        if self._authorizer is None:
            return self._validity.holds
        return self._validity.holds and all(map(self._authorizer.may, self._questions))


class SeenHeartbeat:
    """The heartbeat that a connection has sent last. ``write`` makes the whole frame of a reply to it."""

    __slots__ = ("_coordinator", "_end", "_grounds", "_replies", "_said", "_size", "_start", "_write")

    def __init__(
        self,
        frame: bytes,
        request: "HeartbeatRequest",
        coordinator: "GroupCoordinator",
        grounds: Grounds,
        write: Callable[[ErrorCode], bytes],
    ) -> None:
        self._said = (
            (GroupId(request.group_id), MemberId(request.member_id)),
            Generation(request.generation_id),
            instance_id(request.group_instance_id),
        )
        self._size = 4 + len(frame)
        self._start = len(frame).to_bytes(4, "big") + frame[: ID - 4]
        self._end = frame[AFTER_ID - 4 :]
        self._coordinator = coordinator
        self._grounds = grounds
        self._write = write
        self._replies: dict[ErrorCode, tuple[bytes, bytes]] = {}  # before the correlation id, and after it

    def answer(self, data: bytes) -> tuple[list[bytes], int]:
        """Replies to the frames at the start of ``data`` that are this heartbeat again, and their length."""
        replies: list[bytes] = []
        position = 0
        while (
            data.startswith(self._end, position + AFTER_ID)
            and data.startswith(self._start, position)
            and self._grounds.hold()
        ):
            error = self._coordinator.heartbeat(*self._said)
            before, after = self._replies.get(error) or self._reply(error)
            replies.append(before + data[position + ID : position + AFTER_ID] + after)
            position += self._size
        if replies and not self._grounds.may_answer():
            return [], 0  # the dispatch refuses it
        return replies, position

    def _reply(self, error: ErrorCode) -> tuple[bytes, bytes]:
        frame = self._write(error)
        reply = self._replies[error] = frame[:4], frame[8:]
        return reply


class SeenRequest(ABC, Generic[R]):
    """A request whose reply may have to wait: it is parked here then, one at a time.

    ``write`` makes the whole frame of a reply.
    """

    __slots__ = ("_coordinator", "_grounds", "_number", "_unpark", "_write", "size")
    held = 0  # bytes of a request that waits: none

    def __init__(
        self, size: int, coordinator: "GroupCoordinator", grounds: Grounds, write: Callable[[R], bytes]
    ) -> None:
        self.size = size  # of the whole frame
        self._coordinator = coordinator
        self._grounds = grounds
        self._write = write
        self._number = b""  # the correlation id of the one that is answered now
        self._unpark: Unpark | None = None

    def take(self, data: bytes, unpark: Unpark) -> "bytes | SeenRequest[R] | None":
        """The reply to the request that ``data`` begins with; ``self`` if it is given to ``unpark`` later.

        ``None`` if it is another request, or if what was found for it then may not hold any more.
        """
        asked = self.recognise(data)
        if asked is None or not self._grounds.hold() or not self._grounds.may_answer():
            return None
        self._number = data[ID:AFTER_ID]
        self._unpark = unpark
        answer: object = self._coordinator.ask(*asked, self)
        if answer is self:
            return self
        self._unpark = None
        return self._reply(cast(R, answer)) if self._grounds.may_answer() else None

    @abstractmethod
    def recognise(self, data: bytes) -> tuple[GroupId, Callable[[ReplyTo], Any]] | None:
        """The group and the command, if ``data`` begins with such a request."""

    @abstractmethod
    def parts_of(self, reply: R) -> tuple[bytes, bytes] | None:
        """The frame of a reply before its correlation id and after it, if it was written before."""

    @abstractmethod
    def keep(self, reply: R, parts: tuple[bytes, bytes]) -> None:
        """Keep the frame of a reply, or do not."""

    # As the one who waits for a reply

    def done(self) -> bool:
        """Whether the connection does not wait any more."""
        return self._unpark is None

    def set_result(self, reply: R) -> None:
        unpark, self._unpark = self._unpark, None
        assert unpark is not None, "a reply for a connection that does not wait"
        unpark(self._reply(reply))

    def abandon(self) -> None:
        """The client is gone. What it asked for is not: it is on its way to the log."""
        self._unpark = None

    def _reply(self, reply: R) -> bytes:
        parts = self.parts_of(reply)
        if parts is None:
            frame = self._write(reply)
            parts = frame[:4], frame[8:]
            self.keep(reply, parts)
        return parts[0] + self._number + parts[1]


class SeenConsumerHeartbeat(SeenRequest[ConsumerHeartbeatReply]):
    """The heartbeat of a member of a consumer group that has nothing to say but that it is alive."""

    __slots__ = ("_asked", "_end", "_is_enabled", "_last", "_start")

    def __init__(
        self,
        frame: bytes,
        command: Callable[[ReplyTo], ConsumerHeartbeat],
        basis: "tuple[GroupCoordinator, Grounds]",
        is_enabled: Callable[[], bool],
        write: Callable[[ConsumerHeartbeatReply], bytes],
    ) -> None:
        super().__init__(4 + len(frame), *basis, write)
        self._start = len(frame).to_bytes(4, "big") + frame[: ID - 4]
        self._end = frame[AFTER_ID - 4 :]
        self._asked = command(ReplyTo(0)).group_id, command
        self._is_enabled = is_enabled
        self._last: tuple[ConsumerHeartbeatReply, tuple[bytes, bytes]] | None = None

    def recognise(self, data: bytes) -> tuple[GroupId, Callable[[ReplyTo], ConsumerHeartbeat]] | None:
        is_same = data.startswith(self._end, AFTER_ID) and data.startswith(self._start)
        return self._asked if is_same and self._is_enabled() else None

    def parts_of(self, reply: ConsumerHeartbeatReply) -> tuple[bytes, bytes] | None:
        return self._last[1] if self._last is not None and self._last[0] == reply else None

    def keep(self, reply: ConsumerHeartbeatReply, parts: tuple[bytes, bytes]) -> None:
        self._last = reply, parts
