"""Replies cut out of a stream of bytes. No I/O."""

from collections import deque
from struct import Struct

from kohort.model.errors import ProtocolError

_SIZE = Struct(">i")
# Far above any reply that makes sense (fetch.max.bytes is 55 MiB): only a broken stream exceeds it.
_LARGEST = 256 * 1024 * 1024

_FOREIGN = {
    b"HTTP": ("speaks HTTP", "this is a web server's address; a broker's is usually on port 9092"),
    b"\x15\x03": ("answered with a TLS alert", "the listener expects TLS; use its plaintext listener"),
}


class ReplyFrames:
    """Feed it what arrives, take whole replies out. A ProtocolError means that the stream is lost.

    What arrives is kept in pieces: a reply of many megabytes is put together once, when it is all there.
    """

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()
        self._here = 0  # bytes in all pieces
        self._size: int | None = None  # of the next reply, once its length has been taken out

    def feed(self, received: bytes) -> None:
        self._pieces.append(memoryview(received))
        self._here += len(received)

    def next_frame(self) -> bytes | None:
        """The next reply without its length, or None as long as it is not there in full."""
        if self._size is None:
            if self._here < _SIZE.size:
                return None
            start = self._take(_SIZE.size)
            (size,) = _SIZE.unpack(start)
            if not 0 <= size <= _LARGEST:
                raise _not_a_reply(start, size)
            self._size = size
        if self._here < self._size:
            return None
        size, self._size = self._size, None
        return self._take(size)

    def _take(self, size: int) -> bytes:
        """The first ``size`` bytes, which must be there."""
        self._here -= size
        taken: list[memoryview] = []
        while size:
            piece = self._pieces.popleft()
            if len(piece) > size:
                self._pieces.appendleft(piece[size:])
                piece = piece[:size]
            taken.append(piece)
            size -= len(piece)
        return b"".join(taken)


def _not_a_reply(start: bytes, size: int) -> ProtocolError:
    for sign, (what, hint) in _FOREIGN.items():
        if start.startswith(sign):
            return ProtocolError(f"the peer {what}", hint=hint)
    return ProtocolError(
        f"the peer announced a reply of {size} bytes", hint="is a Kafka broker listening at this address?"
    )
