"""The batches of a piece of a log: hop from header to header, then look at all headers at once."""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kohort.primitives.buffers import Buffer
from kohort.primitives.crc import crc32c
from kohort.records.columns.spans import Ints
from kohort.records.compression import DEFAULT_LIMIT
from kohort.records.errors import CorruptBatchError
from kohort.records.header import (
    CHECKED_FROM,
    CONTROL,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    read_header,
)

_LENGTH_AND_MAGIC = Struct(">iib")
_LENGTH_AT = 8
_HEADER = np.dtype(
    {
        "names": BatchHeader._fields,
        "formats": [
            ">i8", ">i4", ">i4", "i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", ">i4", ">i4",
        ],
    }
)  # fmt: skip
# A delta is a number of 32 bits: with this much room no offset leaves 64 bits.
OFFSET_LIMIT = (1 << 63) - (1 << 33)

LeavesOut = Callable[[int, BatchHeader], bool]
"""Asked, in order, about each transactional or control batch (its position too): whether to pass over it."""


class Sifting(NamedTuple):
    """What of a log is wanted. Batches that end before ``start`` are passed over, as are control batches.

    What stands behind the first batch at or behind ``end`` is not even looked at.
    """

    start: int = 0
    check_crcs: bool = True
    leaves_out: LeavesOut | None = None
    limit: int = DEFAULT_LIMIT  # bytes one batch may decompress to
    end: int = (1 << 63) - 1


class BatchTable(NamedTuple):
    """Whole batches, one element of each vector for a batch, up to ``failure``: what is no batch any more."""

    blob: Buffer
    positions: Ints
    headers: npt.NDArray[Any]  # fields as those of BatchHeader
    failure: CorruptBatchError | None

    @property
    def next_offset(self) -> int | None:
        """The offset behind the last batch; None if there is none."""
        return int(self.next_offsets.max()) if len(self.positions) else None

    @property
    def next_offsets(self) -> Ints:
        return self.numbers("base_offset") + self.numbers("last_offset_delta") + 1

    def numbers(self, name: str) -> Ints:
        """One field of all headers."""
        return self.headers[name].astype(np.int64)

    def header(self, index: int) -> BatchHeader:
        return BatchHeader._make(self.headers[index].item())

    def cut(self, index: int, failure: CorruptBatchError) -> "BatchTable":
        """Those before ``index``, where ``failure`` was found."""
        return BatchTable(self.blob, self.positions[:index], self.headers[:index], failure)

    def chosen(self, which: npt.NDArray[Any]) -> "BatchTable":
        return self._replace(positions=self.positions[which], headers=self.headers[which])


def find_batches(blob: Buffer) -> BatchTable:
    """All whole batches; one that is cut off at the end is left out. Nothing but their frame is checked."""
    positions, failure = _hop(blob)
    at = np.array(positions, np.int64)
    if not positions:
        return BatchTable(blob, at, np.empty(0, _HEADER), failure)
    every = np.frombuffer(blob, np.uint8)[at[:, None] + np.arange(HEADER_SIZE)]
    table = BatchTable(blob, at, every.view(_HEADER)[:, 0], failure)
    bases = table.numbers("base_offset")
    outside = np.flatnonzero((bases > OFFSET_LIMIT) | (bases < -OFFSET_LIMIT))
    if len(outside):
        first = int(outside[0])
        return table.cut(
            first, CorruptBatchError(f"the base offset {bases[first]} leaves no room for those of records")
        )
    return table


def _hop(blob: Buffer) -> tuple[list[int], CorruptBatchError | None]:
    unpack = _LENGTH_AND_MAGIC.unpack_from
    positions: list[int] = []
    position, last = 0, len(blob) - HEADER_SIZE
    while position <= last:
        length, _, magic = unpack(blob, position + _LENGTH_AT)
        if magic != MAGIC or length < HEADER_SIZE - LENGTH_END:
            try:
                read_header(blob, position)  # says what is wrong with it
            except CorruptBatchError as error:
                return positions, error
        positions.append(position)
        position += LENGTH_END + length
    if position > len(blob):
        positions.pop()
    return positions, None


def sift(table: BatchTable, sifting: Sifting) -> BatchTable:
    """The batches that are wanted: whole, neither markers nor aborted, some of them between start and end."""
    table = _before(table, sifting.end)
    if sifting.check_crcs:
        table = _checked(table)
    wanted = table.next_offsets > sifting.start
    attributes = table.headers["attributes"]
    for index in np.flatnonzero(attributes & (TRANSACTIONAL | CONTROL)).tolist():
        header = table.header(index)
        try:
            left_out = sifting.leaves_out is not None and sifting.leaves_out(
                int(table.positions[index]), header
            )
        except CorruptBatchError as error:
            return table.cut(index, error).chosen(wanted[:index])
        if left_out or header.is_control:
            wanted[index] = False
    return table if wanted.all() else table.chosen(wanted)


def _before(table: BatchTable, end: int) -> BatchTable:
    """Up to the first batch at or behind ``end``."""
    behind = np.flatnonzero(table.numbers("base_offset") >= end)
    if not len(behind):
        return table
    first = int(behind[0])
    return BatchTable(table.blob, table.positions[:first], table.headers[:first], None)


def _checked(table: BatchTable) -> BatchTable:
    """Up to the first batch whose checksum is wrong."""
    view = memoryview(table.blob)
    begins = table.positions + CHECKED_FROM
    ends = table.positions + LENGTH_END + table.headers["batch_length"]
    expected = table.headers["crc"].tolist()
    for index, (begin, end, crc) in enumerate(zip(begins.tolist(), ends.tolist(), expected, strict=True)):
        if crc32c(view[begin:end]) != crc:
            try:
                check_crc(table.blob, begin - CHECKED_FROM, table.header(index))
            except CorruptBatchError as error:
                return table.cut(index, error)
    return table
