"""Columns of records made into records, a portion at a time. Needs numpy: see ``bulk``."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np

from kohort.client.fetching.records import ConsumerRecord
from kohort.client.fetching.run import Place
from kohort.model.topics import TopicPartition
from kohort.records.batch import Header
from kohort.records.columns.spans import Bounds, Columns, Flags, HeaderSpans, Ints
from kohort.records.columns.table import BatchTable
from kohort.records.header import LOG_APPEND_TIME

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

    def advance(self, count: int) -> Place:
        self._at = row = self._at + count
        batch = bisect_left(self._lasts, row)
        at_its_end = self._lasts[batch] == row  # compaction may have removed the last records of it
        offset = self._nexts[batch] if at_its_end else int(self._offsets[row - 1]) + 1
        return Place(offset, self._epochs.of(batch))

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
        """For these rows, or as often as anybody wants."""
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
        """For these rows, or as often as anybody wants."""
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
