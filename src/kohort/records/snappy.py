"""Snappy as Kafka frames it: xerial blocks on write, xerial or one bare block on read."""

from struct import Struct

from kohort.primitives.buffers import Buffer
from kohort.records.errors import CompressionError, OversizedPayloadError

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + bytes.fromhex("00000001 00000001")  # version, oldest version that can read it
_BLOCK_SIZE = 32 * 1024
_LENGTH = Struct(">i")
# The densest element copies 64 bytes and takes 3; a declared length beyond that is a lie.
_MAX_EXPANSION = 22


def compress(payload: Buffer) -> bytes:
    """The header, then blocks of 32 KiB, each after its compressed length."""
    import cramjam  # on first use: most brokers never see a compressed batch

    parts = [_HEADER]
    view = memoryview(payload)
    for start in range(0, len(view), _BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _BLOCK_SIZE]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def decompress(payload: Buffer, limit: int) -> bytes:
    """The content of xerial blocks, or of a bare block, which several clients send."""
    if bytes(payload[: len(_MAGIC)]) != _MAGIC:
        return _block(bytes(payload), limit)
    parts: list[bytes] = []
    position = 0
    while position < len(payload):
        # Streams that were glued together repeat the header where a length is due.
        if bytes(payload[position : position + len(_MAGIC)]) == _MAGIC:
            position += len(_HEADER)
            continue
        start = position + _LENGTH.size
        if start > len(payload):
            raise CompressionError("snappy: the length of a block is cut off")
        position = start + _LENGTH.unpack_from(payload, position)[0]
        if not start <= position <= len(payload):
            raise CompressionError(f"snappy: the block at byte {start} does not fit the payload")
        parts.append(_block(bytes(payload[start:position]), limit))
        limit -= len(parts[-1])
    if position > len(payload):
        raise CompressionError("snappy: the header is cut off")
    return b"".join(parts)


def _block(block: bytes, limit: int) -> bytes:
    import cramjam  # on first use: most brokers never see a compressed batch

    try:
        declared = cramjam.snappy.decompress_raw_len(block)
        if declared > limit:
            raise OversizedPayloadError(f"snappy block declares {declared} bytes, {limit} are allowed")
        if declared > _MAX_EXPANSION * len(block):
            raise CompressionError(f"snappy: {len(block)} bytes cannot hold the declared {declared}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CompressionError(f"snappy: {error}") from error
