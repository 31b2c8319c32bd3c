"""Walking over the batches of a file without decoding a record."""

from collections.abc import Iterator
from struct import Struct

from kohort.log.files.disk import File
from kohort.records.batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, CorruptBatchError, read_header
from kohort.records.header import MAGIC, MAGIC_AT

_SPAN = Struct(">qi11xi")  # base offset, length, last offset delta
_BASE_OFFSET = Struct(">q")
_LENGTH_END = 12
_SMALLEST_LENGTH = HEADER_SIZE - _LENGTH_END
_CHUNK = 16_384


def spans(file: File, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and last offset of each batch from ``position`` on, in a file that is trusted.

    Raises ``CorruptBatchError`` where that cannot be; the last end may still lie beyond ``end``.
    """
    while end - position >= HEADER_SIZE:
        chunk = file.read(min(_CHUNK, end - position), position)
        at = 0
        while len(chunk) - at >= _SPAN.size:
            base_offset, length, delta = _SPAN.unpack_from(chunk, at)
            if length < _SMALLEST_LENGTH:
                raise CorruptBatchError(f"a batch of {length} bytes at byte {position + at}")
            following = at + _LENGTH_END + length
            yield position + at, position + following, base_offset + delta
            at = following
        if at == 0:
            raise CorruptBatchError(f"the file ends inside the batch at byte {position}")
        position += at


def headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch from ``position`` on.

    Raises ``CorruptBatchError`` where no batch begins; stops before one that goes beyond ``end``.
    """
    while end - position >= HEADER_SIZE:
        chunk = file.read(min(_CHUNK, end - position), position)
        at = 0
        while len(chunk) - at >= HEADER_SIZE:
            header = read_header(chunk, at)
            following = at + header.size
            if position + following > end:
                return
            yield position + at, header
            at = following
        if at == 0:
            raise CorruptBatchError(f"the file ends inside the batch at byte {position}")
        position += at


def may_begin(content: bytes, at: int) -> bool:
    """Whether what stands there may be a batch: an index that is damaged points anywhere."""
    return (
        len(content) - at >= _SPAN.size
        and content[at + MAGIC_AT] == MAGIC
        and bool(_SPAN.unpack_from(content, at)[1] >= _SMALLEST_LENGTH)
    )


def whole_batches(content: bytes, start: int) -> tuple[int, int]:
    """How much of ``content`` is whole batches, and the offset after them.

    At ``start`` a batch begins; everything before it is whole. Both are 0 when not one batch is whole.
    """
    at = start
    next_offset = 0
    while len(content) - at >= _SPAN.size:
        base_offset, length, delta = _SPAN.unpack_from(content, at)
        following = at + _LENGTH_END + length
        if following > len(content):
            break
        at = following
        next_offset = base_offset + delta + 1
    if at == start and start > 0:
        next_offset = _BASE_OFFSET.unpack_from(content, start)[0]
    return at, next_offset


def batch_size(file: File, position: int) -> int:
    """The size of the batch that begins at ``position``."""
    return read_header(file.read(HEADER_SIZE, position)).size


def timestamp_of(header: BatchHeader) -> int:
    """The youngest timestamp of a batch. One that compaction emptied has none, whatever its header says."""
    return header.max_timestamp if header.records_count else NO_TIMESTAMP
