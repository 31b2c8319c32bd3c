"""Frames: a four-byte size, then that many bytes. Cuts a stream of bytes into them; does no I/O.

How large a request may be depends on its API, which is in the first two bytes after the size: a frame that
is too large is refused when these six bytes are there, not when it has arrived.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from struct import Struct as Format
from types import MappingProxyType
from typing import Final, NoReturn

from kohort.codec.schema import Buffer
from kohort.model.errors import ProtocolError
from kohort.wire.apis import APIS

MAX_REPLY: Final = 1024 * 1024 * 1024
"""What a client accepts: above any Fetch it can ask for, below what the size field could say."""

DEFAULT_LIMIT: Final = 1024 * 1024

_NO_LIMITS: Final[Mapping[int, int]] = MappingProxyType({})
_SIZE: Final = Format(">i")
_SIZE_AND_API: Final = Format(">ih")


class FrameBuffer:
    """Bytes in with ``feed``, whole frames out with ``next_frame``.

    Once ``next_frame`` has raised, the stream has no meaning any more: close the connection.
    """

    def __init__(self, limits: Mapping[int, int] = _NO_LIMITS, default: int = DEFAULT_LIMIT) -> None:
        """``limits``: the bytes of a request by the key of its API; any other API has ``default``."""
        self.set_limits(limits, default)
        self._chunk = b""  # what was fed and is being cut
        self._position = 0  # up to here it has been cut
        self._later: deque[bytes] = deque()  # what was fed after it
        self._partial = bytearray()  # the start of a frame that continues in the next chunk
        self._failure: ProtocolError | None = None

    def set_limits(self, limits: Mapping[int, int], default: int = DEFAULT_LIMIT) -> None:
        """Let other limits hold from the next frame on."""
        self._limits = limits
        self._default = default
        self._largest = max((default, *limits.values()))

    @classmethod
    def for_replies(cls, max_size: int = MAX_REPLY) -> "FrameBuffer":
        """For the client's end: replies do not name their API, and one limit holds for all."""
        return cls(default=max_size)

    @property
    def buffered(self) -> int:
        """How many bytes were fed that no frame has taken yet."""
        left = len(self._chunk) - self._position
        return len(self._partial) + left + sum(map(len, self._later))

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
        partial = self._partial
        while True:
            wanted = self._wanted() - len(partial)
            if wanted == 0:
                self._partial = bytearray()
                return bytes(memoryview(partial)[_SIZE.size :])
            if self._position == len(self._chunk):
                return None
            stop = min(self._position + wanted, len(self._chunk))
            partial += self._chunk[self._position : stop]
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
            self._fail(_wrong_start(bytes(start[: _SIZE.size]), size, self._largest))
        if size < 2 or len(start) < _SIZE_AND_API.size:
            return
        _, api = _SIZE_AND_API.unpack_from(start)
        limit = self._limits.get(api, self._default)
        if size > limit:
            spec = APIS.get(api)
            name = spec.name if spec is not None else f"the unknown API {api}"
            self._fail(f"a request of {size:,} bytes for {name}; {limit:,} are allowed")

    def _fail(self, reason: str) -> NoReturn:
        self._failure = ProtocolError(reason)
        raise self._failure


_HTTP_STARTS = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC"})
_TLS_HANDSHAKE = b"\x16\x03"


def _wrong_start(start: bytes, size: int, limit: int) -> str:
    if start.startswith(_TLS_HANDSHAKE):
        return "a TLS handshake: the peer is set to SSL or SASL_SSL, this listener is plaintext"
    if start in _HTTP_STARTS:
        return f"an HTTP request ({start.decode().strip()}): this port speaks the Kafka protocol"
    if size < 0:
        return f"a frame of {size} bytes: this is not the Kafka protocol"
    return f"a frame of {size:,} bytes; {limit:,} are allowed"


def frame(parts: Iterable[Buffer]) -> list[Buffer]:
    """The parts of one message, header first, with their common size before them."""
    whole = list(parts)
    return [_SIZE.pack(sum(map(len, whole))), *whole]
