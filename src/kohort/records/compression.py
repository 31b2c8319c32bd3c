"""The codecs of a batch's payload, with a cap on what may come out.

A few bytes can announce gigabytes, so nothing is reserved on a peer's word alone: gzip is inflated in
bounded steps, and for the other codecs the block structure bounds the output before memory is asked for.
Data a codec cannot read raises ``CompressionError`` and nothing else; more than ``limit`` bytes of output
raise ``OversizedPayloadError``.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum

from kohort.primitives.buffers import Buffer
from kohort.records import lz4, snappy, zstd
from kohort.records.errors import CompressionError, OversizedPayloadError

DEFAULT_LIMIT = 128 * 1024 * 1024
_GZIP = 31  # zlib's "wbits" for a gzip member with a window of 32 KiB
_SMALL_STEP = 64  # bytes: an empty member has 20


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes; 5 to 7 mean nothing."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, payload: Buffer) -> bytes:
    """``payload`` as Kafka's own producer frames it: xerial blocks for snappy, independent blocks for lz4."""
    match codec:
        case Codec.NONE:
            return bytes(payload)
        case Codec.GZIP:
            return zlib.compress(payload, wbits=_GZIP)
        case Codec.SNAPPY:
            return snappy.compress(payload)
        case Codec.LZ4:
            return lz4.compress(payload)
        case Codec.ZSTD:
            return zstd.compress(payload)


def decompress(codec: int, payload: Buffer, limit: int = DEFAULT_LIMIT) -> bytes:
    """The bytes that were compressed. ``codec`` may be any number: 5 to 7 are refused, never guessed."""
    match codec:
        case Codec.NONE:
            return _within(limit, bytes(payload))
        case Codec.GZIP:
            return _gunzip(payload, limit)
        case Codec.SNAPPY:
            return snappy.decompress(payload, limit)
        case Codec.LZ4:
            return lz4.decompress(payload, limit)
        case Codec.ZSTD:
            return zstd.decompress(payload, limit)
        case _:
            raise CompressionError(f"compression codec {codec} does not exist")


def decompress_into(
    codec: int, payload: Buffer, reserve: Callable[[int], memoryview], limit: int = DEFAULT_LIMIT
) -> int:
    """The same, into what ``reserve`` returns: it is asked once, for as many bytes as may come out at most.

    Returns how many came out.
    """
    match codec:
        case Codec.LZ4:
            return lz4.decompress_into(payload, reserve(lz4.room_for(payload, limit)), limit)
        case Codec.ZSTD:
            return zstd.decompress_into(payload, reserve(zstd.room_for(payload, limit)), limit)
        case _:
            content = decompress(codec, payload, limit)
            reserve(len(content))[:] = content
            return len(content)


def _within(limit: int, payload: bytes) -> bytes:
    if len(payload) > limit:
        raise OversizedPayloadError(f"payload has {len(payload)} bytes, {limit} are allowed")
    return payload


def _gunzip(payload: Buffer, limit: int) -> bytes:
    """All members of a gzip file, one after the other."""
    view, position, inflated = memoryview(payload), 0, bytearray()
    while True:
        position += _inflate(view[position:], inflated, limit)
        if position == len(view):
            return bytes(inflated)


def _inflate(rest: memoryview, inflated: bytearray, limit: int) -> int:
    """Inflate the member that ``rest`` begins with; how many bytes it has.

    What follows a member is copied when the member ends. The pieces it is fed grow with it, so that many
    small members cost no more than their bytes.
    """
    member = zlib.decompressobj(_GZIP)
    fed, step = 0, _SMALL_STEP
    while not member.eof:
        if fed == len(rest):
            raise CompressionError("gzip: the data is cut off")
        piece = rest[fed : fed + step]
        fed += len(piece)
        step *= 2
        try:
            inflated += member.decompress(piece, limit - len(inflated) + 1)
        except zlib.error as error:
            raise CompressionError(f"gzip: {error}") from error
        if len(inflated) > limit:
            raise OversizedPayloadError(f"gzip payload inflates to more than {limit} bytes")
    return fed - len(member.unused_data)
