"""Frames: a four-byte size, then that many bytes. Cuts a stream of bytes into them; does no I/O.

How large a request may be depends on its API, which is in the first two bytes after the size: a frame that
is too large is refused when these six bytes are there, not when it has arrived.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from struct import Struct as Format
from types import MappingProxyType
from typing import Final, NoReturn

from kohort.codec.schema import Buffer
from kohort.model.errors import ProtocolError
from kohort.wire.apis import APIS

MAX_REPLY: Final = 256 * 1024 * 1024
"""What a client accepts: far above any reply that makes sense (fetch.max.bytes is 55 MiB)."""

DEFAULT_LIMIT: Final = 1024 * 1024

_NO_LIMITS: Final[Mapping[int, int]] = MappingProxyType({})
_SIZE: Final = Format(">i")
_SIZE_AND_API: Final = Format(">ih")
_SMALL = 1024  # bytes of a piece: an object for each would cost more than the piece


class FrameBuffer:
    """Bytes in with ``feed``, whole frames out with ``next_frame``.

    Once ``next_frame`` has raised, the stream has no meaning any more: close the connection.
    """

    def __init__(
        self,
        limits: Mapping[int, int] = _NO_LIMITS,
        default: int = DEFAULT_LIMIT,
        *,
        explain: Callable[[bytes, int, int], ProtocolError] | None = None,
    ) -> None:
        """``limits``: the bytes of a request by the key of its API; any other API has ``default``.

        ``explain`` says what is wrong with a stream by its first bytes, the size in them and the limit.
        """
        self.set_limits(limits, default)
        self._explain = explain or _not_a_request
        self._chunk = b""  # what was fed and is being cut
        self._position = 0  # up to here it has been cut
        self._later: deque[bytes] = deque()  # what was fed after it
        self._partial = bytearray()  # the start of a frame that continues in the next chunk: up to six bytes
        self._body: list[bytes | bytearray] = []  # what has come behind them, put together once
        self._held = 0  # bytes in both
        self._failure: ProtocolError | None = None

    def set_limits(self, limits: Mapping[int, int], default: int = DEFAULT_LIMIT) -> None:
        """Let other limits hold from the next frame on."""
        self._limits = limits
        self._default = default
        self._largest = max((default, *limits.values()))

    @classmethod
    def for_replies(cls, max_size: int = MAX_REPLY) -> "FrameBuffer":
        """For the client's end: replies do not name their API, and one limit holds for all."""
        return cls(default=max_size, explain=_not_a_reply)

    @property
    def buffered(self) -> int:
        """How many bytes were fed that no frame has taken yet."""
        left = len(self._chunk) - self._position
        return self._held + left + sum(map(len, self._later))

    @property
    def is_empty(self) -> bool:
        """Whether every byte that was fed has been taken."""
        return self._position == len(self._chunk) and not self._partial and not self._later

    @property
    def expected(self) -> int:
        """The announced length, size field included, of a frame that is not whole yet; 0 if there is none.

        Known after ``next_frame`` has returned None.
        """
        if len(self._partial) < _SIZE.size:
            return 0
        whole: int = _SIZE.size + _SIZE.unpack_from(self._partial)[0]
        return whole

    def feed(self, data: bytes) -> None:
        """Take what the peer sent, in pieces of any size. Never raises."""
        if self._position == len(self._chunk) and not self._later:
            self._chunk = data
            self._position = 0
        elif data:
            self._later.append(data)

    def next_frame(self) -> bytes | None:
        """The next frame without its size, or None until more is fed; ProtocolError if it must not be."""
        if self._failure is not None:
            raise self._failure
        while self._position < len(self._chunk) or self._take_next_chunk():
            frame = self._continue_frame() if self._partial else self._cut_frame()
            if frame is not None:
                return frame
        return None

    def _take_next_chunk(self) -> bool:
        if not self._later:
            self._chunk = b""  # lets go of the memory
            self._position = 0
            return False
        self._chunk = self._later.popleft()
        self._position = 0
        return True

    def _cut_frame(self) -> bytes | None:
        """A frame that lies in the chunk as a whole; otherwise the rest of the chunk is kept as its start."""
        start = self._position
        left = len(self._chunk) - start
        if left >= _SIZE_AND_API.size:
            size, api = _SIZE_AND_API.unpack_from(self._chunk, start)
            if not 2 <= size <= self._limits.get(api, self._default):
                self._check_size(self._chunk[start : start + _SIZE_AND_API.size])
            stop = start + _SIZE.size + size
            if stop <= len(self._chunk):
                self._position = stop
                return self._chunk[start + _SIZE.size : stop]
        return self._continue_frame()

    def _continue_frame(self) -> bytes | None:
        """Add what the chunk has of the frame in ``_partial``; the frame, if that completes it."""
        while True:
            wanted = self._wanted() - self._held
            if wanted == 0:
                whole = b"".join((memoryview(self._partial)[_SIZE.size :], *self._body))
                self._partial, self._body, self._held = bytearray(), [], 0
                return whole
            if self._position == len(self._chunk):
                return None
            stop = min(self._position + wanted, len(self._chunk))
            piece = self._chunk[self._position : stop]
            if self._held < _SIZE_AND_API.size:
                self._partial += piece
            elif len(piece) >= _SMALL:
                self._body.append(piece)
            elif self._body and isinstance(self._body[-1], bytearray):
                self._body[-1] += piece
            else:
                self._body.append(bytearray(piece))
            self._held += len(piece)
            self._position = stop

    def _wanted(self) -> int:
        """How long ``_partial`` must be for the next step: to tell the size, to tell the API, to be whole."""
        partial = self._partial
        if len(partial) < _SIZE.size:
            return _SIZE.size
        if len(partial) <= _SIZE_AND_API.size:
            self._check_size(partial)
        (size,) = _SIZE.unpack_from(partial)
        whole: int = _SIZE.size + size
        return whole if len(partial) >= _SIZE_AND_API.size else min(whole, _SIZE_AND_API.size)

    def _check_size(self, start: bytes | bytearray) -> None:
        """Refuse a frame by its first four bytes or, once they are there, six."""
        (size,) = _SIZE.unpack_from(start)
        if size < 0 or size > self._largest:
            self._fail(self._explain(bytes(start[: _SIZE.size]), size, self._largest))
        if size < 2 or len(start) < _SIZE_AND_API.size:
            return
        _, api = _SIZE_AND_API.unpack_from(start)
        limit = self._limits.get(api, self._default)
        if size > limit:
            spec = APIS.get(api)
            name = spec.name if spec is not None else f"the unknown API {api}"
            self._fail(ProtocolError(f"a request of {size:,} bytes for {name}; {limit:,} are allowed"))

    def _fail(self, failure: ProtocolError) -> NoReturn:
        self._failure = failure
        raise failure


_HTTP_STARTS = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC"})
_TLS_HANDSHAKE, _TLS_ALERT = b"\x16\x03", b"\x15\x03"


def _not_a_request(start: bytes, size: int, limit: int) -> ProtocolError:
    if start.startswith(_TLS_HANDSHAKE):
        return ProtocolError(
            "a TLS handshake: the peer is set to SSL or SASL_SSL, this listener is plaintext"
        )
    if start in _HTTP_STARTS:
        return ProtocolError(
            f"an HTTP request ({start.decode().strip()}): this port speaks the Kafka protocol"
        )
    if size < 0:
        return ProtocolError(f"a frame of {size} bytes: this is not the Kafka protocol")
    return ProtocolError(f"a frame of {size:,} bytes; {limit:,} are allowed")


def _not_a_reply(start: bytes, size: int, limit: int) -> ProtocolError:
    if start == b"HTTP":
        hint = "this is a web server's address; a broker's is usually on port 9092"
        return ProtocolError("the peer speaks HTTP", hint=hint)
    if start.startswith(_TLS_ALERT):
        hint = "it is a TLS listener: set security_protocol to SSL or SASL_SSL"
        return ProtocolError("the peer answered with a TLS alert", hint=hint)
    return ProtocolError(
        f"the peer announced a reply of {size:,} bytes; {limit:,} are allowed",
        hint="is a Kafka broker listening at this address?",
    )


def frame(parts: Iterable[Buffer]) -> list[Buffer]:
    """The parts of one message, header first, with their common size before them."""
    whole = list(parts)
    return [_SIZE.pack(sum(map(len, whole))), *whole]
