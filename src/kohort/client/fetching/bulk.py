"""Records of many batches found at once, where numpy is installed: a third of the work of one after another.

What is found is only made into records batch by batch, as they are taken. Whatever is unusual (headers, a
batch that cannot be read) is left to the decoder of single batches, which also says what is wrong.
"""

import importlib.util
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

from kohort.client.fetching.records import ConsumerRecord
from kohort.model.topics import TopicPartition
from kohort.primitives.buffers import Buffer
from kohort.records.batch import BatchHeader, CorruptBatchError
from kohort.records.compression import DEFAULT_LIMIT
from kohort.records.header import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kohort.records.columns.spans import Columns, Section

# Below this, the fixed cost of numpy's operations is more than they save.
_WORTH_IT = 32 * 1024
# Lists of more rows leave the processor's cache before they are used; of fewer, making them costs too much.
_AT_ONCE = 512
_new = tuple.__new__  # half the time of calling the class


@cache
def _numpy_is_there() -> bool:
    return importlib.util.find_spec("numpy") is not None


def open_bulk(blob: Buffer) -> "Bulk | None":
    """The records of a piece of a log, if finding them at once pays."""
    return Bulk(blob) if len(blob) >= _WORTH_IT and _numpy_is_there() else None


class Bulk:
    """Asked for batches in their order, it reads a section of them ahead."""

    def __init__(self, blob: Buffer) -> None:
        from kohort.records.columns.sections import sections
        from kohort.records.columns.table import find_batches  # numpy

        table = find_batches(blob if isinstance(blob, bytes) else bytes(blob))
        table = table.chosen((table.headers["attributes"] & CONTROL) == 0)
        self._positions: list[int] = table.positions.tolist()
        self._sections: Iterator[Section] = sections(table, DEFAULT_LIMIT)
        self._first = 0  # the number of the batches in the sections before
        self._found: dict[int, tuple[int, int]] = {}  # position of a batch: its rows
        self._rows: _Rows | None = None

    def records(
        self, partition: TopicPartition, position: int, header: BatchHeader
    ) -> list[ConsumerRecord] | None:
        """Those of the batch at ``position``; None if it has to be read alone."""
        try:
            while position not in self._found and self._first < len(self._positions):
                self._next_section()
        except (CorruptBatchError, StopIteration):
            self._positions = []
        if self._rows is None or position not in self._found:
            return None
        first, last = self._found[position]
        offsets, timestamps, keys, values = self._rows.between(first, last)
        return list(
            map(
                _new,
                repeat(ConsumerRecord),
                zip(
                    repeat(partition.topic), repeat(partition.partition), offsets, timestamps, keys, values,
                    repeat(()), repeat(header.partition_leader_epoch), repeat(int(header.is_log_append_time)),
                ),
            )
        )  # fmt: skip

    def _next_section(self) -> None:
        from kohort.records.columns import lanes, read

        section = next(self._sections)
        columns = read.columns_of(section, lanes.decode)
        counts = section.counts.tolist()
        self._rows = _Rows(columns) if columns.headers is None and len(columns.offsets) else None
        self._found = {}
        row = 0
        for position, count in zip(self._positions[self._first :], counts, strict=False):
            self._found[position] = (row, row + count)
            row += count
        self._first += len(counts)


class _Rows:
    """Columns as lists, which are cheaper to go through one by one; few rows at a time, while in a cache."""

    def __init__(self, columns: "Columns") -> None:
        self._columns = columns
        self._data = columns.data if isinstance(columns.data, bytes) else bytes(columns.data)
        self._has_keys, self._has_values = bool(columns.keys.all()), bool(columns.values.all())
        self._rows = range(0)  # those that are in the lists
        self._lists: list[list[Any]] = []

    def between(self, first: int, last: int) -> list[list[Any]]:
        """Offsets, timestamps, keys and values of some rows."""
        rows = self._rows
        if first < rows.start or last > rows.stop:
            self._rows = rows = range(first, max(last, min(first + _AT_ONCE, len(self._columns.offsets))))
            self._lists = self._convert(rows.start, rows.stop)
        if first == rows.start and last == rows.stop:
            return self._lists
        return [each[first - rows.start : last - rows.start] for each in self._lists]

    def _convert(self, first: int, last: int) -> list[list[Any]]:
        columns = self._columns
        bounds = columns.bounds[4 * first : 4 * last]
        keys = self._slices(bounds[0::4].tolist(), bounds[1::4].tolist())
        values = self._slices(bounds[2::4].tolist(), bounds[3::4].tolist())
        if not self._has_keys:
            keys = _where(columns.keys[first:last].tolist(), keys)
        if not self._has_values:
            values = _where(columns.values[first:last].tolist(), values)
        return [columns.offsets[first:last].tolist(), columns.timestamps[first:last].tolist(), keys, values]

    def _slices(self, begins: list[int], ends: list[int]) -> list[Any]:
        data = self._data
        return [data[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _where(present: list[bool], fields: list[Any]) -> list[Any]:
    return [field if there else None for there, field in zip(present, fields, strict=True)]
