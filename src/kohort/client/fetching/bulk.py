"""Records of many batches found at once, where numpy is installed: a third of the work of one after another.

What is found is only made into records batch by batch, as they are taken. Whatever is unusual (headers, a
batch that cannot be read) is left to the decoder of single batches, which also says what is wrong.
"""

import importlib.util
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING

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

        table = find_batches(blob)
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
    """Columns as lists, which are cheaper to go through one by one."""

    def __init__(self, columns: "Columns") -> None:
        bounds = columns.bounds
        if isinstance(columns.data, bytes):
            self._data = columns.data
        else:
            first = int(bounds[0])
            self._data = bytes(memoryview(columns.data)[first : int(bounds[-2])])
            bounds = bounds - first
        self._offsets: list[int] = columns.offsets.tolist()
        self._timestamps: list[int] = columns.timestamps.tolist()
        self._bounds: list[list[int]] = [bounds[field:-1:4].tolist() for field in range(4)]
        self._keys: list[bool] | None = None if columns.keys.all() else columns.keys.tolist()
        self._values: list[bool] | None = None if columns.values.all() else columns.values.tolist()

    def between(
        self, first: int, last: int
    ) -> tuple[list[int], list[int], list[bytes | None], list[bytes | None]]:
        """Offsets, timestamps, keys and values of some rows."""
        rows = slice(first, last)
        key_at, key_end, value_at, value_end = (bounds[rows] for bounds in self._bounds)
        keys = self._slices(key_at, key_end, self._keys and self._keys[rows])
        values = self._slices(value_at, value_end, self._values and self._values[rows])
        return self._offsets[rows], self._timestamps[rows], keys, values

    def _slices(self, begins: list[int], ends: list[int], present: list[bool] | None) -> list[bytes | None]:
        data = self._data
        if present is None:
            return [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
        return [
            data[begin:end] if there else None
            for begin, end, there in zip(begins, ends, present, strict=True)
        ]
