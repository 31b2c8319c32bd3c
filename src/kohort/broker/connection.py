"""One client connection: frames in, replies out, in the order of the requests.

Kafka's rule: requests of a connection are handled one after another, the next one when the
reply of the previous is queued. A request that has to wait (a long poll, a JoinGroup) parks the
connection: nothing more is read from it, and other connections notice nothing. Replies that are ready at once
and came from one read leave in one write, if they take no longer than others should wait. What does not come
in one read, or is not taken by the peer, counts against the budget of ``memory_budget.py``.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from kohort.broker.commit_recognition import CommitSizes
from kohort.broker.memory_budget import FREE, Progress
from kohort.broker.notices import Notices
from kohort.broker.recognition import API, SeenRequest
from kohort.model.errors import KohortError, ProtocolError
from kohort.security.principals import ANONYMOUS
from kohort.wire.framing import FrameBuffer

if TYPE_CHECKING:
    from kohort.broker.endpoints import Endpoint

Buffers = list[bytes | memoryview]

logger = logging.getLogger("kohort.connection")

# Replies of one read are gathered up to this size before they are written.
_GATHER = 256 * 1024

# How long requests of one read are answered before other connections have their turn. Measured, not counted:
# a hundred heartbeats, or one request that costs as much.
SLICE_S = 0.002

# How much may gather behind a request that waits before the peer is left unread. Reading on is the only way
# to notice that it hangs up.
_READ_AHEAD = 64 * 1024

_LOGGED = 5  # reasons a minute for which connections of one host were closed; the others are counted


class Unanswered(Protocol):
    """A request whose reply is not ready."""

    @property
    def held(self) -> int:
        """How many bytes of the request it keeps in memory, about."""
        ...

    def abandon(self) -> None:
        """The peer is gone: there is no one to reply to."""
        ...


class Parked(Unanswered, Protocol):
    """One whose ``parts`` may be called once ``future`` is done.

    It returns the bytes of the reply, ``None`` for no reply at all, or what there is still to wait for.
    """

    @property
    def future(self) -> asyncio.Future[object]: ...

    def parts(self) -> "Buffers | Parked | None": ...


class Requests(Protocol):
    """Who answers: reply bytes at once, ``None`` for no reply at all, or a parked request."""

    @property
    def notices(self) -> Notices: ...

    def serve(self, frame: bytes, connection: "BrokerConnection") -> Buffers | Parked | None: ...


class BrokerConnection(asyncio.Protocol):
    """The bytes of one client. A fault of the peer closes this connection and nothing else."""

    def __init__(
        self,
        requests: Requests,
        frames: FrameBuffer,
        endpoint: "Endpoint",
        *,
        opened: Callable[["BrokerConnection"], None],
        closed: Callable[["BrokerConnection"], None],
    ) -> None:
        self._requests = requests
        self._frames = frames
        self._budget = endpoint.budget
        self.endpoint = endpoint
        self.principal = ANONYMOUS
        self._opened = opened
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._parked: Unanswered | None = None
        self._choked = False  # the peer does not read its replies
        self._gives_way = False  # there is more to answer, when others have had their turn
        self._unread = 0  # bytes of them: the transport keeps each as a whole until all of it is sent
        self._ahead = 0  # bytes behind what we wait for
        self._admitted = 0  # size of the request that comes in by pieces, once there is room for it
        self._finished = 0  # requests that came in so
        self._queued = False  # the budget has no room for it yet
        self._held = 0  # of the budget
        self._reading = True
        self._open = True
        self.peer = ""
        self.client_host = ""  # as Kafka records it: "/127.0.0.1"
        self.last_active = 0.0
        self.seen: dict[bytes, SeenRequest[Any]] = {}  # by the bytes of their API; set by those who answer
        self.commit_sizes = CommitSizes()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername") or ("", 0)
        self.peer = f"{address[0]}:{address[1]}"
        self.client_host = f"/{address[0]}"
        self.last_active = self._loop.time()
        self._opened(self)
        if self._open and self.endpoint.tls is not None:
            self._read_certificate()
        if self._open and self.endpoint.sasl is not None:
            self.endpoint.sasl.half_open.add(self)

    def data_received(self, data: bytes) -> None:
        self.last_active = self._loop.time()
        if self._parked is None and not self._choked and self._frames.is_empty and self._open:
            data = self._answer_seen(data)
            if not data and not self._choked:
                return
        self._frames.feed(data)
        if not self._waits:
            self._serve()
        else:
            self._ahead += len(data)
            self._count()

    def eof_received(self) -> bool:
        return False  # an end of input is a close: the peer reads no reply any more

    def connection_lost(self, exc: Exception | None) -> None:
        self._open = False
        if self._parked is not None:
            self._parked.abandon()
            self._parked = None
        self._budget.forget(self)
        if self.endpoint.sasl is not None:
            self.endpoint.sasl.half_open.remove(self)
        self._closed(self)

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        self._unread = 0
        if not self._gives_way:
            self._serve()

    # What we do

    @property
    def is_idle(self) -> bool:
        """No request is under way. A peer that does not read its replies counts as idle: it may be gone."""
        return self._parked is None

    def close(self, reason: str = "") -> None:
        """Close after what is queued has been sent; with a reason, say so in one line."""
        if not self._open:
            return
        self._open = False
        if reason:
            self._say_closed(reason, reason)
        self._transport.close()

    def _say_closed(self, text: str, reason: str) -> None:
        about = f"connections of {self.client_host[1:]} that were closed"
        text = f"closed {self.peer}: {text}"
        self._requests.notices.warn(logger, about, text, at_most=_LOGGED, reason=reason)

    def abort(self) -> None:
        """Close at once, dropping what is queued."""
        self._open = False
        self._transport.abort()

    def asks(self, requests: Requests) -> bool:
        """Whether its frames go to these at once, and to no gate before."""
        return self._requests is requests

    def authenticated(self, principal: str, requests: Requests) -> None:
        """The peer has logged in: ``requests`` answers it from now on."""
        self.principal = principal
        self.seen, self.commit_sizes = {}, CommitSizes()  # of another principal
        self._requests = requests
        self._frames.set_limits(self.endpoint.request_limits)

    def _read_certificate(self) -> None:
        """The peer's principal, which SASL may replace."""
        assert self.endpoint.tls is not None
        tls = self._transport.get_extra_info("ssl_object")
        try:
            self.principal = self.endpoint.tls.principal(tls.getpeercert(binary_form=True))
        except KohortError as error:
            self.close(str(error))

    # What the budget asks

    def may_be_read(self) -> None:
        self._queued = False
        self._admitted = self._frames.expected
        self._count()

    def progress(self) -> Progress | None:
        if self._queued or ((self._parked is not None or self._gives_way) and not self._choked):
            return None
        return Progress(self._finished, self._frames.buffered, self._transport.get_write_buffer_size())

    def shed(self, reason: str) -> None:
        self._say_closed(f"{reason} (queued.max.request.bytes)", "shed")
        self.abort()
        self._budget.forget(self)

    def _count(self) -> None:
        """Tell the budget what this connection holds, and read on if that is in order."""
        if not self._open:
            return
        held = self._frames.buffered
        if self._parked is not None:
            held += self._parked.held
        elif not (self._waits or self._admitted or self._queued) and self._frames.expected > FREE:
            if self._budget.admit(self, self._frames.expected):
                self._admitted = self._frames.expected
            else:
                self._queued = True
        held = max(held, self._admitted) if held + self._admitted > FREE else 0
        held += self._unread
        if held != self._held:
            self._held = held
            self._budget.hold(self, held)
        self._set_reading()

    def _answer_seen(self, data: bytes) -> bytes:
        """Answer what has been seen before, or let it wait for its answer; what comes after it."""
        replies: list[bytes] = []
        start = 0
        seen = self.seen.get(data[API])
        while seen is not None:
            frame = data[start : start + seen.size]  # not all that follows: a peer may send thousands at once
            try:
                answer = seen.take(frame, self._answered)
            except Exception:
                break  # a bug: the dispatch runs into it again, and says for which request
            if answer is None:
                break
            start += seen.size
            if not isinstance(answer, bytes):
                self._parked = seen
                break
            replies.append(answer)
            seen = self.seen.get(data[start + API.start : start + API.stop])
        self._write(replies)
        return data[start:]

    def _answered(self, reply: bytes) -> None:
        """The reply of a commit that has waited; what came after it is looked at in the next turn."""
        self._parked = None
        self.last_active = self._loop.time()
        self._write([reply])
        if self._frames.is_empty and not self._held:
            self._ahead = 0
            self._set_reading()
        else:
            self._loop.call_soon(self._serve)

    @property
    def _waits(self) -> bool:
        """Whether what comes in is only kept for now."""
        return self._parked is not None or self._choked or self._gives_way

    def _serve(self) -> None:
        """Answer requests for a while, until there are none, one has to wait, or the peer stops reading."""
        until = time.monotonic() + SLICE_S
        while self._open and not self._waits:
            if not self._serve_some(until):
                break
            if time.monotonic() >= until and not (self._waits or self._frames.is_empty):
                self._gives_way = True
                self._loop.call_soon(self._serve_on)
        waits = self._waits
        self._ahead = self._frames.buffered if waits else 0
        if waits or self._held or self._frames.expected > FREE:
            self._count()
        else:
            self._set_reading()

    def _serve_on(self) -> None:
        self._gives_way = False
        self._serve()

    def _serve_some(self, until: float) -> bool:
        """Answer what fits in one write, and in the time; whether there may be more to answer."""
        gathered: Buffers = []
        size = 0
        more = True
        try:
            while size < _GATHER and self._parked is None:
                frame = self._frames.next_frame()
                if frame is None:
                    more = False
                    break
                if self._admitted:
                    self._admitted = 0
                    self._finished += 1
                answer = self._requests.serve(frame, self)
                if isinstance(answer, list):
                    gathered += answer
                    size += sum(map(len, answer))
                elif answer is not None:
                    self._park(answer)
                if time.monotonic() >= until:
                    break
        except Exception as error:
            self._write(gathered)
            self._fail(error)
            return False
        self._write(gathered)
        return more

    def _fail(self, error: Exception) -> None:
        """A fault of the peer is logged in one line; a bug of ours with its stack. Either way it is over."""
        if isinstance(error, ProtocolError):
            self.close(str(error))
        else:
            logger.error("closed %s: the broker ran into a bug", self.peer, exc_info=error)
            self.close()

    def _park(self, parked: Parked) -> None:
        self._parked = parked
        parked.future.add_done_callback(partial(self._unpark, parked))

    def _unpark(self, parked: Parked, _future: asyncio.Future[object]) -> None:
        if self._parked is not parked:
            return  # the connection was lost meanwhile
        self._parked = None
        self.last_active = self._loop.time()
        try:
            answer = parked.parts()
            if answer is not None and not isinstance(answer, list):
                self._park(answer)
                self._count()
                return
            self._write(answer or [])
        except Exception as error:
            self._fail(error)
            return
        self._serve()

    def _write(self, parts: Sequence[bytes | memoryview]) -> None:
        if not parts or self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)
        if self._choked:
            self._unread += sum(map(len, parts))

    def _set_reading(self) -> None:
        # A long poll costs no system call: reading stops only when too much has come meanwhile.
        wanted = self._open and not self._queued and self._ahead <= _READ_AHEAD
        if wanted == self._reading:
            return
        self._reading = wanted
        if not self._transport.is_closing():
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()
