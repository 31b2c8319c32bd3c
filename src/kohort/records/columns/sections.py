"""Find the payloads in a piece of a log: hop over the batch headers, check, decompress."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from kohort.primitives.buffers import Buffer
from kohort.primitives.crc import crc32c
from kohort.records.columns.spans import Section
from kohort.records.compression import DEFAULT_LIMIT, decompress
from kohort.records.errors import CorruptBatchError
from kohort.records.header import (
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    read_header,
)
from kohort.records.record import SMALLEST_RECORD, TIMESTAMP_LIMIT, check_room

# A delta is a 32-bit number: with this much room no offset leaves 64 bits.
_OFFSET_LIMIT = (1 << 63) - (1 << 32)
_TIMESTAMP_ROOM = TIMESTAMP_LIMIT - 64
# Vectors of this many bytes' records still fit a processor's cache; more lanes would gain less than that.
SECTION_BYTES = 4 * 1024 * 1024

LeavesOut = Callable[[int, BatchHeader], bool]
"""Asked, in order, about each transactional or control batch (its position too): whether to pass over it."""


class Sifting(NamedTuple):
    """What of a log is wanted. Batches that end before ``start`` are passed over, as are control batches."""

    start: int = 0
    check_crcs: bool = True
    leaves_out: LeavesOut | None = None
    limit: int = DEFAULT_LIMIT  # bytes one batch may decompress to


EVERYTHING = Sifting()


class _Gathering:
    """Batches on their way into a section."""

    __slots__ = ("rows", "scratch", "size")

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.scratch: bytearray | None = None  # None while all payloads stand in the log itself
        self.size = 0

    def is_full(self, codec: int) -> bool:
        """Whether a batch of this codec begins a new section: payloads of one lie in one buffer."""
        if not self.rows:
            return False
        return self.size >= SECTION_BYTES or (codec != 0 and self.scratch is None)

    def add(self, fields: tuple[int, ...], start: int, end: int) -> None:
        base_offset, base_timestamp, max_timestamp, count = fields[0], fields[7], fields[8], fields[12]
        following = base_offset + fields[6] + 1
        appended = fields[5] & LOG_APPEND_TIME
        self.rows.append((start, end, count, base_offset, base_timestamp, max_timestamp, appended, following))
        self.size += end - start

    def section(self, blob: Buffer) -> Section:
        table = np.array(self.rows, dtype=np.int64).T.copy()
        return Section(blob if self.scratch is None else self.scratch, *table)


def sections(blob: Buffer, sifting: Sifting = EVERYTHING) -> Iterator[Section]:
    """The wanted batches, in sections of a few megabytes; one that is cut off at the end is left out.

    Raises ``CorruptBatchError`` for a batch that cannot be read, after the section of those before it.
    """
    gathering = _Gathering()
    failure: CorruptBatchError | None = None
    hops = _wanted(blob, sifting)
    while failure is None:
        try:
            found = next(hops, None)
            if found is None:
                break
            if gathering.is_full(found[1][5] & CODEC_MASK):
                yield gathering.section(blob)
                gathering = _Gathering()
            _gather(gathering, blob, found, sifting.limit)
        except CorruptBatchError as error:
            failure = error
    if gathering.rows:
        yield gathering.section(blob)
    if failure is not None:
        raise failure


def next_offset(blob: Buffer) -> int | None:
    """The offset behind the last whole batch, before anything that is no batch; None if there is none."""
    following: int | None = None
    try:
        for _, fields in _hop(blob):
            following = max(fields[0] + fields[6] + 1, following or 0)
    except CorruptBatchError:
        return following  # whoever reads the batches gets to hear of it
    return following


def _hop(blob: Buffer) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Position and raw header of each whole batch."""
    unpack = HEADER.unpack_from
    position, end = 0, len(blob)
    while end - position >= HEADER_SIZE:
        fields = unpack(blob, position)
        length = fields[1]
        if fields[3] != MAGIC or length < HEADER_SIZE - LENGTH_END:
            read_header(blob, position)  # says what is wrong with it
        following = position + LENGTH_END + length
        if following > end:
            return
        yield position, fields
        position = following


def _wanted(blob: Buffer, sifting: Sifting) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Those that pass: checked, neither markers nor aborted, and not wholly before the start."""
    start, check, leaves_out = sifting.start, sifting.check_crcs, sifting.leaves_out
    view = memoryview(blob)
    for position, fields in _hop(blob):
        if check and crc32c(view[position + CHECKED_FROM : position + LENGTH_END + fields[1]]) != fields[4]:
            check_crc(blob, position, BatchHeader._make(fields))
        if fields[5] & (TRANSACTIONAL | CONTROL):
            header = BatchHeader._make(fields)
            if (leaves_out is not None and leaves_out(position, header)) or header.is_control:
                continue
        if fields[0] + fields[6] >= start:
            yield position, fields


def _gather(gathering: _Gathering, blob: Buffer, found: tuple[int, tuple[int, ...]], limit: int) -> None:
    """Add a batch, decompressed if it has to be; refuse one without room for what it counts."""
    position, fields = found
    start, end = position + HEADER_SIZE, position + LENGTH_END + fields[1]
    codec = fields[5] & CODEC_MASK
    if not codec and gathering.scratch is None:
        _check_room(end - start, fields)
        gathering.add(fields, start, end)
        return
    payload = decompress(codec, memoryview(blob)[start:end], limit)
    _check_room(len(payload), fields)
    if gathering.scratch is None:
        gathering.scratch = bytearray()
    start = len(gathering.scratch)
    gathering.scratch += payload
    gathering.add(fields, start, start + len(payload))


def _check_room(size: int, fields: tuple[int, ...]) -> None:
    base_offset, base_timestamp, count = fields[0], fields[7], fields[12]
    if not 0 <= count * SMALLEST_RECORD <= size or not -_TIMESTAMP_ROOM <= base_timestamp < _TIMESTAMP_ROOM:
        check_room(size, BatchHeader._make(fields))
    if not -_OFFSET_LIMIT <= base_offset <= _OFFSET_LIMIT:
        raise CorruptBatchError(f"the base offset {base_offset} leaves no room for deltas")
