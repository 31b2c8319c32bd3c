"""Reading a segment as if nothing in it could be trusted."""

import zlib
from collections.abc import Iterator
from struct import Struct

from kohort.log.disk import File
from kohort.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatchError,
    LegacyFormatError,
    check_crc,
    read_header,
)

_ENTRY = Struct(">qi4xb")  # offset, length, magic: the same in every format there was
_LENGTH_END = 12
_SMALLEST_LEGACY = 14
_LEGACY_CRC = Struct(">I")
_MOST_OFFSETS = (1 << 31) - 1
_CHUNK = 1 << 20


def checked_batches(file: File, size: int, base_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch of a segment, checksums compared.

    Raises ``CorruptBatchError`` at the first byte that does not belong to a good batch, and
    ``LegacyFormatError`` at a message of a format Kohort does not read: that is data, not damage.
    """
    position = 0
    expected = base_offset
    while position < size:
        chunk = file.read(min(_CHUNK, size - position), position)
        length = _total_size(chunk, position, size)
        if length > len(chunk):
            chunk = file.read(length, position)
        at = 0
        while length <= len(chunk) - at:
            header = _checked(chunk, at, position + at)
            _check_offsets(header, expected, base_offset)
            expected = header.next_offset
            yield position + at, header
            at += length
            if len(chunk) - at < _ENTRY.size:
                break
            length = _total_size(chunk[at : at + _ENTRY.size], position + at, size)
        position += at


def _total_size(chunk: bytes, position: int, size: int) -> int:
    """The declared size of the entry at the start of ``chunk``, which stands at ``position``."""
    if len(chunk) < _ENTRY.size:
        raise CorruptBatchError(f"{len(chunk)} bytes are left at byte {position}, too few for a batch")
    _, length, _ = _ENTRY.unpack_from(chunk)
    if length < _SMALLEST_LEGACY:
        raise CorruptBatchError(f"the entry at byte {position} declares a length of {length}")
    if position + _LENGTH_END + length > size:
        raise CorruptBatchError(f"the batch at byte {position} is cut off at the end of the file")
    return _LENGTH_END + int(length)


def _checked(chunk: bytes, at: int, position: int) -> BatchHeader:
    _, length, magic = _ENTRY.unpack_from(chunk, at)
    end = at + _LENGTH_END + length
    if magic in (0, 1) and _is_legacy(chunk[at + _LENGTH_END : end]):
        raise LegacyFormatError(
            f"there is a message of magic {magic} at byte {position}",
            hint="Kohort reads logs written by Kafka 0.11 or later; let Kafka convert this topic first",
        )
    if end - at < HEADER_SIZE:
        raise CorruptBatchError(f"the entry at byte {position} is smaller than a batch header")
    try:
        header = read_header(chunk, at)
    except LegacyFormatError as error:
        raise CorruptBatchError(f"what is at byte {position} is no batch") from error
    check_crc(chunk, at, header)
    return header


def _is_legacy(message: bytes) -> bool:
    # Only a checksum that is right makes it a message: torn bytes have any magic.
    return len(message) >= _SMALLEST_LEGACY and _LEGACY_CRC.unpack_from(message)[0] == zlib.crc32(message[4:])


def _check_offsets(header: BatchHeader, expected: int, base_offset: int) -> None:
    if header.last_offset_delta < 0 or header.base_offset < expected:
        raise CorruptBatchError(
            f"offset {header.base_offset} to {header.last_offset} comes where {expected} was expected"
        )
    if header.last_offset - base_offset > _MOST_OFFSETS:
        raise CorruptBatchError(f"offset {header.last_offset} is too far from the start of its segment")
