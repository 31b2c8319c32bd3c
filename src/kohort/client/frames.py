"""Replies cut out of a stream of bytes. No I/O."""

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
    """Feed it what arrives, take whole replies out. A ProtocolError means that the stream is lost."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> None:
        self._buffer += received

    def next_frame(self) -> bytes | None:
        """The next reply without its length, or None as long as it is not there in full."""
        buffer = self._buffer
        if len(buffer) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(buffer)
        if not 0 <= size <= _LARGEST:
            raise _not_a_reply(bytes(buffer[:4]), size)
        end = _SIZE.size + size
        if len(buffer) < end:
            return None
        frame = bytes(memoryview(buffer)[_SIZE.size : end])
        del buffer[:end]
        return frame


def _not_a_reply(start: bytes, size: int) -> ProtocolError:
    for sign, (what, hint) in _FOREIGN.items():
        if start.startswith(sign):
            return ProtocolError(f"the peer {what}", hint=hint)
    return ProtocolError(
        f"the peer announced a reply of {size} bytes", hint="is a Kafka broker listening at this address?"
    )
