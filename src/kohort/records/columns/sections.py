"""Payloads of batches, gathered in sections of a few megabytes that a decoder takes at once."""

from collections.abc import Iterator

import numpy as np

from kohort.primitives.buffers import Buffer
from kohort.records.columns.spans import Ints, Section
from kohort.records.columns.table import BatchTable
from kohort.records.compression import decompress_into
from kohort.records.errors import CorruptBatchError
from kohort.records.header import CODEC_MASK, HEADER_SIZE, LENGTH_END, LOG_APPEND_TIME
from kohort.records.record import SMALLEST_RECORD, TIMESTAMP_LIMIT, check_room

# Vectors of the records in this many bytes still fit a processor's cache; more lanes would gain less.
SECTION_BYTES = 4 * 1024 * 1024
# Batches are as a rule smaller than this, so that the last one of a section fits as well.
_SPARE_BYTES = 1024 * 1024
_TIMESTAMP_ROOM = TIMESTAMP_LIMIT - 64


def sections(table: BatchTable, limit: int) -> Iterator[Section]:
    """All batches of a table; none may decompress to more than ``limit`` bytes.

    Raises ``CorruptBatchError`` for what ended the table, and for a batch that does not decompress or has no
    room for the records it counts; after the sections of the batches before it.
    """
    if (table.headers["attributes"] & CODEC_MASK).any():
        found = _decompressed(table, limit)
    else:
        found = _as_they_stand(table)
    for section, failure in found:
        if len(section.starts):
            yield section
        if failure is not None:
            raise failure
    if table.failure is not None:
        raise table.failure


_Found = tuple[Section, CorruptBatchError | None]


def _as_they_stand(table: BatchTable) -> Iterator[_Found]:
    """Sections of uncompressed payloads: they are read in the log itself."""
    starts = table.positions + HEADER_SIZE
    ends = table.positions + LENGTH_END + table.headers["batch_length"]
    numbers = np.cumsum(ends - starts) // SECTION_BYTES
    cuts = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(starts)]
    first = 0
    for cut in cuts:
        part = slice(first, cut)
        yield _section(table, part, table.blob, (starts[part], ends[part]))
        first = cut


def _decompressed(table: BatchTable, limit: int) -> Iterator[_Found]:
    """Sections of payloads one after the other in a scratch buffer."""
    view = memoryview(table.blob)
    codecs = (table.headers["attributes"] & CODEC_MASK).tolist()
    begins = (table.positions + HEADER_SIZE).tolist()
    ends = (table.positions + LENGTH_END + table.headers["batch_length"]).tolist()
    scratch, first = _Scratch(), 0
    failure: CorruptBatchError | None = None
    for index, codec in enumerate(codecs):
        try:
            scratch.add(codec, view[begins[index] : ends[index]], limit)
        except CorruptBatchError as error:
            failure = error
            break
        if scratch.length >= SECTION_BYTES:
            yield _section(table, slice(first, index + 1), scratch.content, scratch.bounds)
            scratch, first = _Scratch(), index + 1
    section, refused = _section(table, slice(first, first + scratch.count), scratch.content, scratch.bounds)
    yield section, refused or failure


class _Scratch:
    """Decompressed payloads of one section."""

    def __init__(self) -> None:
        self._buffer = np.empty(SECTION_BYTES + _SPARE_BYTES, np.uint8).data
        self._ends = [0]

    @property
    def length(self) -> int:
        return self._ends[-1]

    @property
    def count(self) -> int:
        return len(self._ends) - 1

    @property
    def content(self) -> memoryview:
        return self._buffer[: self.length]

    @property
    def bounds(self) -> tuple[Ints, Ints]:
        """Where each payload begins and ends."""
        at = np.array(self._ends, np.int64)
        return at[:-1], at[1:]

    def add(self, codec: int, payload: memoryview, limit: int) -> None:
        self._ends.append(self.length + decompress_into(codec, payload, self._reserve, limit))

    def _reserve(self, size: int) -> memoryview:
        end = self.length + size
        if end > len(self._buffer):
            grown = np.empty(max(end, 2 * len(self._buffer)), np.uint8).data
            grown[: self.length] = self.content
            self._buffer = grown
        return self._buffer[self.length : end]


def _section(table: BatchTable, part: slice, data: Buffer, bounds: tuple[Ints, Ints]) -> _Found:
    """The batches of a part, up to the first that lies about its records."""
    table = table._replace(positions=table.positions[part], headers=table.headers[part])
    starts, ends = bounds
    counts, stamps = table.numbers("records_count"), table.numbers("base_timestamp")
    lies = (counts < 0) | (counts * SMALLEST_RECORD > ends - starts)
    lies |= (stamps < -_TIMESTAMP_ROOM) | (stamps >= _TIMESTAMP_ROOM)
    section = Section(
        data,
        starts,
        ends,
        counts,
        table.numbers("base_offset"),
        stamps,
        table.numbers("max_timestamp"),
        table.numbers("attributes") & LOG_APPEND_TIME,
    )
    if not lies.any():
        return section, None
    first = int(np.flatnonzero(lies)[0])
    try:
        check_room(int(ends[first] - starts[first]), table.header(first))
    except CorruptBatchError as error:
        return section.part(slice(0, first)), error
    raise AssertionError("two checks of a header disagree")
