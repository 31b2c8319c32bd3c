"""Records of many batches found at once, with numpy: a third of the work of one after another.

What is found is only made into records as they are taken, a portion at a time. A piece of a log in which
something is wrong is left to the decoder of single batches, which says what that is.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from kohort.client.fetching.chunk import ConsumerRecord, OffsetAndEpoch, Reading, leaves_out_aborted
from kohort.model.topics import TopicPartition
from kohort.records.batch import CorruptBatchError, Header
from kohort.records.columns.read import columns_of
from kohort.records.columns.sections import sections
from kohort.records.columns.spans import Bounds, Columns, Flags, HeaderSpans, Ints
from kohort.records.columns.table import BatchTable, Sifting, find_batches, sift
from kohort.records.header import LOG_APPEND_TIME
from kohort.wire.messages.fetch import PartitionData

# Lists of more rows leave the processor's cache before they are used; of fewer, making them costs too much.
_AT_LEAST, _AT_MOST = 256, 1_024
_LARGE = 1_024  # bytes of a field; larger ones are not worth being copied twice
_new = tuple.__new__  # half the time of calling the class


class Rows:
    """The records of batches that follow each other. Lists are cheaper to go through than vectors."""

    def __init__(self, partition: TopicPartition, batches: BatchTable, columns: Columns) -> None:
        counts = batches.numbers("records_count")
        data = columns.data if isinstance(columns.data, bytes) else bytes(columns.data)
        begins, ends = columns.bounds[0:-1:2], columns.bounds[1::2]
        self._partition = partition
        self._offsets = columns.offsets
        self._timestamps = columns.timestamps
        self._keys = _Fields(data, begins[0::2], ends[0::2], columns.keys)
        self._values = _Fields(data, begins[1::2], ends[1::2], columns.values)
        self._headers = _Headers(data, columns.headers) if columns.headers is not None else None
        self._lasts: list[int] = counts.cumsum().tolist()  # the row behind each batch
        self._nexts: list[int] = batches.next_offsets.tolist()
        self._epochs = _ByBatch(batches.numbers("partition_leader_epoch"), counts)
        self._types = _ByBatch((batches.numbers("attributes") & LOG_APPEND_TIME) // LOG_APPEND_TIME, counts)
        self._at = 0  # the first row that was not handed out
        self._made: list[ConsumerRecord] = []  # some rows
        self._made_from = 0
        last = bisect_left(self._lasts, self._lasts[-1])  # batches without records behind it are not ours
        self.end = int(batches.positions[last]) + batches.header(last).size

    def begin_at(self, start: int) -> None:
        """Pass over the rows before ``start``."""
        self._at = int(self._offsets.searchsorted(start))

    @property
    def left(self) -> int:
        return self._lasts[-1] - self._at

    def portion(self, limit: int) -> list[ConsumerRecord]:
        at, made = self._at - self._made_from, self._made
        if at >= len(made):
            rows = min(max(limit, _AT_LEAST), _AT_MOST, self.left)
            self._made_from, self._made = self._at, self._make(self._at, self._at + rows)
            at, made = 0, self._made
        return made[at : at + limit]

    def advance(self, count: int) -> OffsetAndEpoch:
        self._at = row = self._at + count
        batch = bisect_left(self._lasts, row)
        at_its_end = self._lasts[batch] == row  # compaction may have removed the last records of it
        offset = self._nexts[batch] if at_its_end else int(self._offsets[row - 1]) + 1
        return OffsetAndEpoch(offset, self._epochs.of(batch))

    def _make(self, first: int, last: int) -> list[ConsumerRecord]:
        topic, number = self._partition
        return list(
            map(
                _new,
                repeat(ConsumerRecord),
                zip(
                    repeat(topic), repeat(number),
                    self._offsets[first:last].tolist(), self._timestamps[first:last].tolist(),
                    self._keys.between(first, last), self._values.between(first, last),
                    repeat(()) if self._headers is None else self._headers.between(first, last),
                    self._epochs.between(first, last), self._types.between(first, last),
                ),
            )
        )  # fmt: skip


class _Fields:
    """The keys, or the values, of all rows: bytes, or None where none is ``present``."""

    def __init__(self, data: bytes, begins: Bounds, ends: Bounds, present: Flags) -> None:
        self._data, self._begins, self._ends = data, begins, ends
        self._present = None if present.all() else present
        self._is_missing = not present.any()
        self._places: Any = None
        sizes = ends - begins
        size = int(sizes[0]) if len(sizes) else 0
        if self._present is None and 0 < size <= _LARGE and (sizes == size).all():
            # Everything of this size there is in the data: numpy makes bytes of those that are wanted at a
            # third of the price of slices.
            self._places = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))

    def between(self, first: int, last: int) -> Iterable[Any]:
        """For these rows; or the same value without end."""
        if self._is_missing:
            return repeat(None)
        if self._places is not None:
            found: list[Any] = self._places[self._begins[first:last]].tolist()
            return found
        data = self._data
        bounds = zip(self._begins[first:last].tolist(), self._ends[first:last].tolist(), strict=True)
        fields = [data[begin:end] for begin, end in bounds]
        if self._present is None:
            return fields
        there = self._present[first:last].tolist()
        return [field if is_there else None for is_there, field in zip(there, fields, strict=True)]


class _ByBatch:
    """A number that all records of a batch share, and mostly all batches too."""

    def __init__(self, numbers: Ints, counts: Ints) -> None:
        self._numbers = numbers
        self._rows = None if (numbers == numbers[0]).all() else numbers.repeat(counts)

    def of(self, batch: int) -> int:
        return int(self._numbers[batch])

    def between(self, first: int, last: int) -> Iterable[int]:
        """For these rows; or the same value without end."""
        if self._rows is None:
            return repeat(int(self._numbers[0]))
        rows: list[int] = self._rows[first:last].tolist()
        return rows


class _Headers:
    """The headers of all rows, most of which may have none."""

    def __init__(self, data: bytes, spans: HeaderSpans) -> None:
        self._data = data
        self._spans = spans
        self._lasts = spans.counts.cumsum()  # the header behind each row

    def between(self, first: int, last: int) -> Iterator[list[Header] | tuple[()]]:
        counts: list[int] = self._spans.counts[first:last].tolist()
        begin = int(self._lasts[first]) - counts[0]
        end = int(self._lasts[last - 1])
        headers = zip(
            *(self._spans.bounds[4 * begin + place : 4 * end : 4].tolist() for place in range(4)),
            self._spans.values[begin:end].tolist(),
            strict=True,
        )
        data = self._data
        found = [
            (data[a:b].decode("utf-8", "surrogateescape"), data[c:d] if has_value else None)
            for a, b, c, d, has_value in headers
        ]
        at = 0
        for count in counts:
            yield found[at : (at := at + count)] if count else ()


class Bulk(NamedTuple):
    """The records of a piece of a log. ``runs`` raises CorruptBatchError where something is wrong with it."""

    runs: Iterator[Rows]
    base: int  # where the piece begins in the bytes its runs count from
    end: int  # the byte of the piece behind the last whole batch
    behind: OffsetAndEpoch  # the last batch


def open_bulk(
    partition: TopicPartition, start: int, answered: PartitionData, reading: Reading
) -> Bulk | None:
    """The records from ``start`` on; None if there are none."""
    blob = answered.records
    assert isinstance(blob, bytes | memoryview)
    table = find_batches(blob)
    following = table.next_offset
    if following is None:
        return None
    last = table.header(-1)
    end = int(table.positions[-1]) + last.size
    whole, base = _whole(blob)
    table = table._replace(blob=whole, positions=table.positions + base)
    leaves_out = leaves_out_aborted(answered, whole) if reading.read_committed else None
    return Bulk(
        _runs(partition, table, Sifting(start, reading.check_crcs, leaves_out)),
        base,
        end,
        OffsetAndEpoch(following, last.partition_leader_epoch),
    )


def _whole(blob: bytes | memoryview) -> tuple[bytes, int]:
    """The bytes a view is of, and where in them it begins: slices of bytes are bytes, and need no copy."""
    if isinstance(blob, bytes):
        return blob, 0
    if not isinstance(blob.obj, bytes):
        return bytes(blob), 0
    begin, whole = (np.frombuffer(each, np.uint8).ctypes.data for each in (blob, blob.obj))
    return blob.obj, begin - whole


def _runs(partition: TopicPartition, table: BatchTable, sifting: Sifting) -> Iterator[Rows]:
    """Runs of a few megabytes, none of them empty, up to the first that cannot be read in full."""
    _check_batches(table)  # all of them: one that is passed over moves the position, too
    wanted = sift(table, sifting)
    first = 0
    for section in sections(wanted, sifting.limit):
        here = slice(first, first := first + len(section.counts))
        part = wanted._replace(positions=wanted.positions[here], headers=wanted.headers[here])
        columns = columns_of(section)
        _check_order(part, columns)
        rows = Rows(partition, part, columns)
        rows.begin_at(sifting.start)
        if rows.left:
            yield rows


def _check_batches(batches: BatchTable) -> None:
    """Raise CorruptBatchError unless each is of some length and begins where the last one ended, or later."""
    bases, nexts = batches.numbers("base_offset"), batches.next_offsets
    if (nexts <= bases).any() or (bases[1:] < nexts[:-1]).any():
        raise CorruptBatchError("batches do not ascend")


def _check_order(batches: BatchTable, columns: Columns) -> None:
    """Raise CorruptBatchError unless offsets of records ascend, and lie where the headers say."""
    offsets, counts = columns.offsets, batches.numbers("records_count")
    lasts = counts.cumsum()
    filled = counts > 0
    firsts = lasts - counts
    in_order = (
        (offsets[1:] > offsets[:-1]).all()
        and (offsets[firsts[filled]] >= batches.numbers("base_offset")[filled]).all()
        and (offsets[lasts[filled] - 1] < batches.next_offsets[filled]).all()
    )
    if not in_order:
        raise CorruptBatchError("offsets do not ascend")
