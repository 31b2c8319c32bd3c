"""Columns as Arrow record batches: Arrow copies what the spans point at.

Everything is built from buffers: ``pyarrow.array`` would import pandas, which takes longer than a small job.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pyarrow import lib as pa

from kohort.records.columns.spans import Bounds, Columns, Flags, HeaderSpans, Ints

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
FIELDS = {
    "key": pa.field("key", pa.binary()),
    "value": pa.field("value", pa.binary()),
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
    "offset": pa.field("offset", pa.int64()),
    "timestamp": pa.field("timestamp", pa.timestamp("us", "UTC")),
    "timestampType": pa.field("timestampType", pa.int32()),
    "headers": pa.field("headers", pa.list_(_HEADER)),
}
_MICROS = 1_000
_LARGEST_MILLIS = ((1 << 63) - 1) // _MICROS


class PieceOrigin(NamedTuple):
    """What all records of a piece have in common."""

    topic: str
    partition: int


class ColumnSelection(NamedTuple):
    """Which of the records, which fields of them, and how many at most in one Arrow batch."""

    names: Sequence[str]
    rows: int
    start: int
    end: int


def schema(names: Sequence[str]) -> pa.Schema:
    """The fields of these names, in this order."""
    return pa.schema([FIELDS[name] for name in names])


def record_batches(columns: Columns, place: PieceOrigin, wanted: ColumnSelection) -> Iterator[pa.RecordBatch]:
    """The records from ``wanted.start`` to before ``wanted.end``, in Arrow batches that own their memory."""
    offsets = columns.offsets
    chosen = np.flatnonzero((offsets >= wanted.start) & (offsets < wanted.end))
    if not len(chosen):
        return
    made = schema(wanted.names)
    writer = _Writer(columns, place)
    for first in range(0, len(chosen), wanted.rows):
        rows = chosen[first : first + wanted.rows]
        arrays = [writer.array(name, rows) for name in wanted.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=made)


class _Writer:
    """Makes the columns of chosen rows."""

    def __init__(self, columns: Columns, place: PieceOrigin) -> None:
        self._columns = columns
        self._place = place
        self._spans = _binary(columns.bounds, columns.data)
        self._makers: dict[str, Callable[[Ints], pa.Array]] = {
            "key": lambda rows: _taken(self._spans, rows * 4, columns.keys[rows]),
            "value": lambda rows: _taken(self._spans, rows * 4 + 2, columns.values[rows]),
            "topic": self._topics,
            "partition": lambda rows: _numbers(pa.int32(), np.full(len(rows), place.partition, np.int32)),
            "offset": lambda rows: _numbers(pa.int64(), columns.offsets[rows]),
            "timestamp": self._timestamps,
            "timestampType": lambda rows: _numbers(pa.int32(), columns.appended[rows].astype(np.int32)),
            "headers": self._headers,
        }

    def array(self, name: str, rows: Ints) -> pa.Array:
        return self._makers[name](rows)

    def _topics(self, rows: Ints) -> pa.Array:
        name = self._place.topic.encode()
        bounds = np.arange(0, len(name) * len(rows) + 1, len(name), dtype=np.int32)
        return pa.Array.from_buffers(
            pa.string(), len(rows), [None, pa.py_buffer(bounds), pa.py_buffer(name * len(rows))]
        )

    def _timestamps(self, rows: Ints) -> pa.Array:
        # A producer may write any number: what microseconds cannot hold becomes the furthest they can.
        millis = np.clip(self._columns.timestamps[rows], -_LARGEST_MILLIS, _LARGEST_MILLIS)
        return _numbers(FIELDS["timestamp"].type, millis * _MICROS)

    def _headers(self, rows: Ints) -> pa.Array:
        spans = self._columns.headers
        kind = FIELDS["headers"].type
        if spans is None:
            empty = np.zeros(len(rows) + 1, np.int32)
            present = _bitmap(np.zeros(len(rows), np.bool_))
            return pa.Array.from_buffers(
                kind, len(rows), [present, pa.py_buffer(empty)], children=[_no_headers()]
            )
        counts = spans.counts[rows]
        bounds = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(counts, out=bounds[1:])
        items = self._header_items(spans, rows, counts)
        return pa.Array.from_buffers(
            kind, len(rows), [_bitmap(counts > 0), pa.py_buffer(bounds)], children=[items]
        )

    def _header_items(self, spans: HeaderSpans, rows: Ints, counts: Bounds) -> pa.Array:
        firsts = (np.cumsum(spans.counts, dtype=np.int64) - spans.counts)[rows]
        total = int(counts.sum())
        # The number of each header: that of its record's first, and its place behind that.
        places = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = np.repeat(firsts, counts) + places
        whole = _binary(spans.bounds, self._columns.data)
        keys = _text(_taken(whole, chosen * 4, np.ones(total, np.bool_)))
        values = _taken(whole, chosen * 4 + 2, spans.values[chosen])
        return pa.Array.from_buffers(_HEADER, total, [None], children=[keys, values])


def _binary(bounds: Bounds, data: object) -> pa.Array:
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)


def _taken(spans: pa.Array, places: Ints, present: Flags) -> pa.Array:
    """The spans at these places, null where there is none."""
    taken = spans.take(_numbers(pa.int64(), places))
    if present.all():
        return taken
    return pa.Array.from_buffers(pa.binary(), len(places), [_bitmap(present), *taken.buffers()[1:]])


def _numbers(kind: pa.DataType, numbers: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _bitmap(present: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def _text(keys: pa.Array) -> pa.Array:
    """Bytes as text. What is no UTF-8 is replaced, as Kafka's own client does."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        pieces = [bytes(key.as_py()).decode("utf-8", "replace").encode() for key in keys]
        bounds = np.zeros(len(pieces) + 1, np.int32)
        np.cumsum([len(piece) for piece in pieces], out=bounds[1:])
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(pieces))]
        return pa.Array.from_buffers(pa.string(), len(pieces), buffers)


def _no_headers() -> pa.Array:
    none = np.zeros(1, np.int32)
    keys = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(none), pa.py_buffer(b"")])
    values = pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(none), pa.py_buffer(b"")])
    return pa.Array.from_buffers(_HEADER, 0, [None], children=[keys, values])
