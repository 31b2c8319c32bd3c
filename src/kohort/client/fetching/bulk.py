"""Records of many batches found at once, where numpy is installed: a third of the work of one after another.

What is found is only made into records as they are taken, a portion at a time. A piece of a log in which
something is wrong is left to the decoder of single batches, which says what that is.
"""

import importlib.util
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.client.fetching.aborted import leaves_out_aborted
from kohort.client.fetching.records import ConsumerRecord, Reading
from kohort.client.fetching.run import Place
from kohort.model.topics import TopicPartition
from kohort.records.batch import CorruptBatchError, Header
from kohort.records.header import LOG_APPEND_TIME
from kohort.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from kohort.records.columns.spans import Columns, HeaderSpans, Ints
    from kohort.records.columns.table import BatchTable, Sifting

# Below this, the fixed cost of numpy's operations is more than they save.
_WORTH_IT = 32 * 1024
# Lists of more rows leave the processor's cache before they are used; of fewer, making them costs too much.
_AT_LEAST, _AT_MOST = 256, 1_024
_new = tuple.__new__  # half the time of calling the class


@cache
def _numpy_is_there() -> bool:
    return importlib.util.find_spec("numpy") is not None


class Bulk(NamedTuple):
    """The records of a piece of a log. ``runs`` raises CorruptBatchError where something is wrong with it."""

    runs: "Iterator[Rows]"
    base: int  # where the piece begins in the bytes its runs count from
    end: int  # the byte of the piece behind the last whole batch
    behind: Place  # the last batch


def open_bulk(
    partition: TopicPartition, start: int, answered: PartitionData, reading: Reading
) -> "Bulk | None":
    """The records from ``start`` on, if reading them at once pays."""
    blob = answered.records
    if not isinstance(blob, bytes | memoryview) or len(blob) < _WORTH_IT or not _numpy_is_there():
        return None
    from kohort.records.columns.table import Sifting, find_batches  # numpy

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
        Place(following, last.partition_leader_epoch),
    )


def _whole(blob: bytes | memoryview) -> tuple[bytes, int]:
    """The bytes a view is of, and where in them it begins: slices of bytes are bytes, and need no copy."""
    import numpy as np

    if isinstance(blob, bytes):
        return blob, 0
    if not isinstance(blob.obj, bytes):
        return bytes(blob), 0
    begin, whole = (np.frombuffer(each, np.uint8).ctypes.data for each in (blob, blob.obj))
    return blob.obj, begin - whole


def _runs(partition: TopicPartition, table: "BatchTable", sifting: "Sifting") -> "Iterator[Rows]":
    """Runs of a few megabytes, none of them empty, up to the first that cannot be read in full."""
    from kohort.records.columns import lanes, read
    from kohort.records.columns.sections import sections
    from kohort.records.columns.table import sift

    wanted = sift(table, sifting)
    first, reached = 0, sifting.start
    for section in sections(wanted, sifting.limit):
        here = slice(first, first := first + len(section.counts))
        part = wanted._replace(positions=wanted.positions[here], headers=wanted.headers[here])
        columns = read.columns_of(section, lanes.decode)
        _check_order(part, columns, reached)
        reached = int(part.next_offsets[-1])
        rows = Rows(partition, part, columns)
        rows.begin_at(sifting.start)
        if rows.left:
            yield rows


def _check_order(batches: "BatchTable", columns: "Columns", reached: int) -> None:
    """Offsets ascend, and lie where the headers say; only the first batch may begin before ``reached``."""
    offsets, bases, nexts = columns.offsets, batches.numbers("base_offset"), batches.next_offsets
    lasts = batches.numbers("records_count").cumsum()
    filled = batches.numbers("records_count") > 0
    firsts = lasts - batches.numbers("records_count")
    in_order = (
        (offsets[1:] > offsets[:-1]).all()
        and (bases[1:] >= nexts[:-1]).all()
        and nexts[0] > reached
        and (offsets[firsts[filled]] >= bases[filled]).all()
        and (offsets[lasts[filled] - 1] < nexts[filled]).all()
    )
    if not in_order:
        raise CorruptBatchError("offsets do not ascend")


class Rows:
    """The records of batches that follow each other. Lists are cheaper to go through than vectors."""

    def __init__(self, partition: TopicPartition, batches: "BatchTable", columns: "Columns") -> None:
        counts = batches.numbers("records_count")
        self._partition = partition
        self._columns = columns
        self._data = columns.data if isinstance(columns.data, bytes) else bytes(columns.data)
        self._headers = _Headers(self._data, columns.headers) if columns.headers is not None else None
        self._has_keys, self._has_values = bool(columns.keys.all()), bool(columns.values.all())
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
        self._at = int(self._columns.offsets.searchsorted(start))

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
        offset = self._nexts[batch] if at_its_end else int(self._columns.offsets[row - 1]) + 1
        return Place(offset, self._epochs.of(batch))

    def _make(self, first: int, last: int) -> list[ConsumerRecord]:
        columns, (topic, number) = self._columns, self._partition
        bounds = columns.bounds[4 * first : 4 * last]
        keys = self._slices(bounds[0::4].tolist(), bounds[1::4].tolist())
        values = self._slices(bounds[2::4].tolist(), bounds[3::4].tolist())
        if not self._has_keys:
            keys = _where(columns.keys[first:last].tolist(), keys)
        if not self._has_values:
            values = _where(columns.values[first:last].tolist(), values)
        return list(
            map(
                _new,
                repeat(ConsumerRecord),
                zip(
                    repeat(topic), repeat(number), columns.offsets[first:last].tolist(),
                    columns.timestamps[first:last].tolist(), keys, values,
                    repeat(()) if self._headers is None else self._headers.between(first, last),
                    self._epochs.between(first, last), self._types.between(first, last),
                ),
            )
        )  # fmt: skip

    def _slices(self, begins: list[int], ends: list[int]) -> list[Any]:
        data = self._data
        return [data[begin:end] for begin, end in zip(begins, ends, strict=True)]


class _ByBatch:
    """A number that all records of a batch share, and mostly all batches too."""

    def __init__(self, numbers: "Ints", counts: "Ints") -> None:
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

    def __init__(self, data: bytes, spans: "HeaderSpans") -> None:
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


def _where(present: list[bool], fields: list[Any]) -> list[Any]:
    return [field if there else None for there, field in zip(present, fields, strict=True)]
