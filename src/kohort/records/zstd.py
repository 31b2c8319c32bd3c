"""Zstandard frames, usually written by a stream and so without their content size.

The blocks are walked here, so that the output is bounded before memory is asked for.
"""

from struct import Struct

from kohort.primitives.buffers import Buffer
from kohort.records.errors import CompressionError, OversizedPayloadError

_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50  # and the fifteen numbers after it
_MAGIC_AND_LENGTH = Struct("<II")
_BLOCK_MAX = 128 * 1024
_LEVEL = 3  # the default of Kafka's producer
_RLE, _COMPRESSED = 1, 2  # kinds of blocks; the others stand as they are
_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_CONTENT_SIZE_SIZES = (0, 2, 4, 8)


def compress(payload: Buffer) -> bytes:
    """One frame."""
    import cramjam  # on first use: most brokers never see a compressed batch

    return bytes(cramjam.zstd.compress(payload, level=_LEVEL))


def decompress(payload: Buffer, limit: int) -> bytes:
    """The content of all frames, one after the other."""
    content = bytearray(room_for(payload, limit))
    length = decompress_into(payload, content, limit)
    return bytes(memoryview(content)[:length])


def room_for(payload: Buffer, limit: int) -> int:
    """How many bytes to reserve for the content: never less than it has, unless that is more than allowed."""
    return min(_bound(payload, limit), limit)


def decompress_into(payload: Buffer, room: bytearray | memoryview, limit: int) -> int:
    """Write the content to ``room``, as much as ``room_for`` says; how many bytes it has."""
    import cramjam  # on first use: most brokers never see a compressed batch

    try:
        return int(cramjam.zstd.decompress_into(payload, room))
    except (cramjam.DecompressionError, OSError) as error:
        if _bound(payload, limit) > limit:
            raise OversizedPayloadError(f"zstd payload does not decompress to {limit} bytes") from error
        raise CompressionError(f"zstd: {error}") from error


def _bound(payload: Buffer, limit: int) -> int:
    """The most bytes the frames can hold, according to their blocks.

    Looks no further once that is more than ``limit``, and stops where the data is cut off or is no frame:
    the library refuses it there.
    """
    position = bound = 0
    while position + 8 <= len(payload) and bound <= limit:
        magic, length = _MAGIC_AND_LENGTH.unpack_from(payload, position)
        if magic & ~0xF == _SKIPPABLE:
            position += 8 + length
        elif magic == _MAGIC:
            position, held = _frame_bound(payload, position + 4, limit - bound)
            bound += held
        else:
            break
    return bound


def _frame_bound(payload: Buffer, position: int, limit: int) -> tuple[int, int]:
    """Where the frame ends whose descriptor is at ``position``, and at most how much it holds."""
    descriptor = payload[position]
    single_segment = descriptor & 0x20
    content_size_size = _CONTENT_SIZE_SIZES[descriptor >> 6] or (1 if single_segment else 0)
    position += 1 + (0 if single_segment else 1) + _DICTIONARY_ID_SIZES[descriptor & 3] + content_size_size
    bound = 0
    while position + 3 <= len(payload) and bound <= limit:
        header = payload[position] | payload[position + 1] << 8 | payload[position + 2] << 16
        kind, size = header >> 1 & 3, header >> 3
        bound += _BLOCK_MAX if kind == _COMPRESSED else size
        position += 3 + (1 if kind == _RLE else size)
        if header & 1:
            return position + (4 if descriptor & 4 else 0), bound
    return len(payload), bound
