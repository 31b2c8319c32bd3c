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

if TYPE_CHECKING:
    from kohort.security.acls import Authorizer, Question

R = TypeVar("R")

# A request is a frame of: size, API and version (8 bytes), correlation id (4), client id and body.
ID, AFTER_ID = 8, 12
API = slice(4, 6)

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


class SeenRequest(ABC, Generic[R]):
    """A request that a connection has sent. If its reply has to wait it is parked here, one at a time.

    ``write`` makes the whole frame of a reply.
    """

    __slots__ = ("_grounds", "_number", "_unpark", "_write", "size", "used")
    held = 0  # bytes of a request that waits: none

    def __init__(self, size: int, grounds: Grounds, write: Callable[[R], bytes]) -> None:
        self.size = size  # of the whole frame
        self._grounds = grounds
        self._write = write
        self._number = b""  # the correlation id of the one that is answered now
        self._unpark: Unpark | None = None
        self.used = False  # it has come again

    def take(self, data: bytes, unpark: Unpark) -> "bytes | SeenRequest[R] | None":
        """The reply to the request that ``data`` begins with; ``self`` if it is given to ``unpark`` later.

        ``None`` if it is another request, or if what was found for it then may not hold any more.
        """
        asked = self.recognise(data)
        if asked is None or not self._grounds.hold() or not self._grounds.may_answer():
            return None
        self.used = True
        self._number = data[ID:AFTER_ID]
        self._unpark = unpark
        answer = self.ask(asked)
        if answer is self:
            return self
        self._unpark = None
        return self._reply(cast(R, answer)) if self._grounds.may_answer() else None

    @abstractmethod
    def recognise(self, data: bytes) -> object | None:
        """What to ask, if ``data`` begins with such a request."""

    @abstractmethod
    def ask(self, asked: Any) -> object:  # noqa: ANN401 - what ``recognise`` has found
        """The reply to that, or ``self`` if it comes later."""

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


class SameRequest(SeenRequest[R]):
    """One that comes again byte by byte, but for its correlation id. The last reply is kept.

    ``decide`` makes the reply, or returns the waiter it is given if the reply comes later.
    """

    __slots__ = ("_decide", "_end", "_last", "_start")

    def __init__(
        self,
        frame: bytes,
        grounds: Grounds,
        decide: "Callable[[SameRequest[R]], object]",
        write: Callable[[R], bytes],
    ) -> None:
        super().__init__(4 + len(frame), grounds, write)
        self._decide = decide
        self._start = len(frame).to_bytes(4, "big") + frame[: ID - 4]
        self._end = frame[AFTER_ID - 4 :]
        self._last: tuple[R, tuple[bytes, bytes]] | None = None

    def recognise(self, data: bytes) -> object | None:
        return (data.startswith(self._end, AFTER_ID) and data.startswith(self._start)) or None

    def ask(self, _asked: object) -> object:
        return self._decide(self)

    def parts_of(self, reply: R) -> tuple[bytes, bytes] | None:
        last = self._last
        return last[1] if last is not None and (last[0] is reply or last[0] == reply) else None

    def keep(self, reply: R, parts: tuple[bytes, bytes]) -> None:
        self._last = reply, parts
