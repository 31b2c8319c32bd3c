"""A segment file, batch by batch, up to the first byte that cannot be trusted.

Recovery cuts a segment there, compaction and replay refuse to go on: a torn write and a flipped bit look the
same, so nothing behind a bad batch is ever read.
"""

from collections.abc import Iterator
from enum import Enum
from struct import Struct

from kohort.primitives.buffers import Buffer
from kohort.primitives.crc import crc32c
from kohort.records.errors import CorruptBatchError
from kohort.records.header import (
    CHECKED_FROM,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
)

_LENGTH = Struct(">i")
_LENGTH_AT = 8
_SMALLEST_MESSAGE = 14  # what follows the length in the oldest format
_SMALLEST_BATCH = HEADER_SIZE - LENGTH_END
_FIRST, _LAST = 0, (1 << 63) - 1
_REACH = 0x7FFFFFFF  # how far from the base of a segment an offset may be: indexes store 32 bits


class Flaw(Enum):
    """What is wrong with the first bytes that are no good."""

    CUT_OFF = "the file ends inside a batch"
    BAD_LENGTH = "the declared length is too small for a batch"
    LEGACY_FORMAT = "a message set of magic 0 or 1, an unsupported legacy format"
    UNKNOWN_MAGIC = "the magic number is none that exists"
    BAD_CHECKSUM = "the checksum does not match the bytes"
    BAD_OFFSETS = "the offsets go back, or too far from the base of the segment"


class DamagedSegmentError(CorruptBatchError):
    """The batch at ``position`` is no good; everything before it is."""

    def __init__(self, position: int, flaw: Flaw) -> None:
        super().__init__(f"at byte {position}: {flaw.value}")
        self.position = position
        self.flaw = flaw


def walk_segment(
    segment: Buffer, *, base_offset: int | None = None, check: bool = True, start: int = 0
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch; raises ``DamagedSegmentError`` at the first that is no good.

    ``base_offset`` is that of the segment, if offsets are to be held against it; ``check`` includes the
    checksums; ``start`` is the position of a batch to begin with.
    """
    view = memoryview(segment)
    end = len(view)
    expected, reach = (_FIRST, _LAST) if base_offset is None else (base_offset, base_offset + _REACH)
    position = start
    while position < end:
        header = _header(view, position)
        following = position + LENGTH_END + header.batch_length
        if check and crc32c(view[position + CHECKED_FROM : following]) != header.crc:
            raise DamagedSegmentError(position, Flaw.BAD_CHECKSUM)
        first, last = header.base_offset, header.base_offset + header.last_offset_delta
        # The base offset stands outside the checksum: only its neighbours tell when it is damaged.
        if not expected <= first <= last <= reach:
            raise DamagedSegmentError(position, Flaw.BAD_OFFSETS)
        expected = last + 1
        yield position, header
        position = following


def _header(view: memoryview, position: int) -> BatchHeader:
    """A header of magic 2 whose whole batch is there."""
    left = len(view) - position
    if left >= HEADER_SIZE:
        header = BatchHeader._make(HEADER.unpack_from(view, position))
        if header.magic == MAGIC and _SMALLEST_BATCH <= header.batch_length <= left - LENGTH_END:
            return header
    raise DamagedSegmentError(position, _flaw(view, position, left))


def _flaw(view: memoryview, position: int, left: int) -> Flaw:
    """Why there is no whole batch of magic 2 at ``position``; the checks come in Kafka's order."""
    if left <= MAGIC_AT:
        return Flaw.CUT_OFF
    length = _LENGTH.unpack_from(view, position + _LENGTH_AT)[0]
    if length < _SMALLEST_MESSAGE:
        return Flaw.BAD_LENGTH
    if length > left - LENGTH_END:
        return Flaw.CUT_OFF
    magic = view[position + MAGIC_AT]
    if magic == MAGIC:
        return Flaw.BAD_LENGTH
    return Flaw.LEGACY_FORMAT if magic < MAGIC else Flaw.UNKNOWN_MAGIC
