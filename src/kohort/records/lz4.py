"""The LZ4 frame format as Kafka uses it: blocks that do not depend on each other, checksums optional.

The frame is walked here, so that its output is bounded before memory is asked for; the blocks, and the
checksums if there are any, are left to the library.
"""

from struct import Struct

from kohort.primitives.buffers import Buffer
from kohort.records.errors import CompressionError, OversizedPayloadError

_MAGIC = bytes.fromhex("04224d18")
# FLG 0x60 (version 1, independent blocks), BD 0x40 (64 KiB blocks), then the checksum of these two.
_HEADER = _MAGIC + bytes.fromhex("604082")
_END = bytes(4)
_BLOCK_SIZE = 64 * 1024
_LENGTH = Struct("<I")
_STORED = 0x80000000  # the top bit of a length: this block did not shrink and stands as it is
_MAX_EXPANSION = 255  # one byte of a match length stands for at most 255 bytes
_BLOCK_SIZES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}


def compress(payload: Buffer) -> bytes:
    """One frame without checksums or content size: byte for byte the header Kafka's own clients write."""
    import cramjam  # on first use: most brokers never see a compressed batch

    parts = [_HEADER]
    view = memoryview(payload)
    for start in range(0, len(view), _BLOCK_SIZE):
        content = view[start : start + _BLOCK_SIZE]
        block = bytes(cramjam.lz4.compress_block(content, store_size=False))
        if len(block) < len(content):
            parts += (_LENGTH.pack(len(block)), block)
        else:
            parts += (_LENGTH.pack(len(content) | _STORED), bytes(content))
    parts.append(_END)
    return b"".join(parts)


def decompress(payload: Buffer, limit: int) -> bytes:
    """The content of one frame; bytes behind its end are refused."""
    content = bytearray(room_for(payload, limit))
    length = decompress_into(payload, content, limit)
    return bytes(memoryview(content)[:length])


def room_for(payload: Buffer, limit: int) -> int:
    """How many bytes to reserve for the content: never less than it has, unless that is more than allowed."""
    return min(_bound(payload), limit)


def decompress_into(payload: Buffer, room: bytearray | memoryview, limit: int) -> int:
    """Write the content to ``room``, as much as ``room_for`` says; how many bytes it has."""
    import cramjam  # on first use: most brokers never see a compressed batch

    try:
        return int(cramjam.lz4.decompress_into(payload, room))
    except (cramjam.DecompressionError, OSError) as error:
        if _bound(payload) > limit:
            raise OversizedPayloadError(f"lz4 payload does not decompress to {limit} bytes") from error
        raise CompressionError(f"lz4 frame: {error}") from error


def _bound(payload: Buffer) -> int:
    """The most bytes the frame can hold, according to its blocks."""
    if len(payload) < len(_HEADER) or bytes(payload[:4]) != _MAGIC:
        raise CompressionError("lz4: this is not an lz4 frame")
    flags, block_size = payload[4], _BLOCK_SIZES.get(payload[5] >> 4 & 7)
    if flags >> 6 != 1 or block_size is None:
        raise CompressionError(
            f"lz4: unknown frame version or block size (FLG {flags:#x}, BD {payload[5]:#x})"
        )
    if not flags & 0x20:
        raise CompressionError("lz4: the blocks depend on each other, Kafka's format wants them independent")
    position = len(_HEADER) + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    bound = 0
    while position + 4 <= len(payload):
        length = _LENGTH.unpack_from(payload, position)[0]
        position += 4
        if length == 0:
            position += 4 if flags & 0x04 else 0
            if position != len(payload):
                raise CompressionError(f"lz4: the frame ends at byte {position} of {len(payload)}")
            return bound
        length &= _STORED - 1
        bound += min(block_size, length * _MAX_EXPANSION)
        position += length + (4 if flags & 0x10 else 0)
    raise CompressionError("lz4: the frame is cut off")
