"""Record batches made of Arrow columns, without an object for a record; the bytes are ``build_batch``'s.

A record is numbers between spans of bytes. numpy works out the numbers of all rows at once, Arrow copies the
spans between them, and the payload of a batch is a slice of what came out. ``pa.scalar`` and ``pa.array`` are
not used: they load pandas, which costs a fresh process more than the encoding of a million records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pyarrow import compute as arrow_compute
from pyarrow import lib as pa

from kohort.model.errors import KohortError
from kohort.records.build import Payload
from kohort.records.compression import Codec, compress

Int64s = npt.NDArray[np.int64]

_RECORD_OVERHEAD = 31  # lengths, deltas, attributes and the number of headers at their largest
_compute: Any = arrow_compute  # its names are made when it is imported: a type checker sees none of them
_NULL_IS_EMPTY = _compute.JoinOptions(null_handling="replace", null_replacement="")
NULL = -1


class NoHeaderError(KohortError):
    """An entry of the headers column that no record can carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """Records to be written, one in each row; ``headers`` as ``encode_headers`` makes them.

    Keys and values are Arrow arrays of type binary. A column that is None is null in every row.
    """

    timestamps: Int64s  # milliseconds since 1970
    values: pa.Array
    keys: pa.Array | None = None
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, rows: Int64s) -> "RecordColumns":
        """These rows, in this order."""
        chosen = index_array(rows)
        return RecordColumns(
            timestamps=self.timestamps[rows],
            values=self.values.take(chosen),
            keys=None if self.keys is None else self.keys.take(chosen),
            headers=None if self.headers is None else self.headers.take(chosen),
        )


# Reading Arrow


def index_array(rows: Int64s) -> pa.Array:
    """Row numbers as Arrow takes them."""
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])


def binary_array(data: Any, offsets: npt.NDArray[np.int32]) -> pa.Array:  # noqa: ANN401 (any buffer)
    """An Arrow array of type binary whose elements lie between the offsets."""
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    )


def is_valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which elements are not null."""
    bits = array.buffers()[0]
    if bits is None:
        return np.ones(len(array), np.bool_)
    whole = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return whole[array.offset : array.offset + len(array)].astype(np.bool_)


def bounds(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where the elements of a binary, string or list array begin, and where the last one ends."""
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


def lengths(array: pa.Array) -> Int64s:
    """The lengths of the elements, ``NULL`` (-1) for those that are null."""
    if len(array) == 0:
        return np.empty(0, np.int64)
    found = np.diff(bounds(array)).astype(np.int64)
    if array.null_count:
        found[~is_valid(array)] = NULL
    return found


# Numbers


class _Varints(NamedTuple):
    """A column of numbers in zig-zag form, and how many bytes each takes."""

    numbers: npt.NDArray[np.uint64]
    sizes: Int64s


def _varints(column: Int64s) -> _Varints:
    numbers = ((column << 1) ^ (column >> 63)).view(np.uint64)
    sizes = np.ones(len(numbers), np.int64)
    largest = int(numbers.max(initial=0))
    bound = 1 << 7
    while bound <= largest:
        sizes += numbers >= np.uint64(bound)
        bound <<= 7
    return _Varints(numbers, sizes)


def _put(out: npt.NDArray[np.uint8], at: Int64s, column: _Varints) -> None:
    numbers, sizes = column
    out[at] = (numbers & np.uint64(0x7F)).astype(np.uint8)
    for place in range(1, int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        here = at[rows] + place
        out[here - 1] |= np.uint8(0x80)
        out[here] = (numbers[rows] >> np.uint64(7 * place) & np.uint64(0x7F)).astype(np.uint8)


def _written(*columns: _Varints) -> pa.Array:
    """One element for each row: its number of every column, one after the other."""
    offsets = np.zeros(len(columns[0].numbers) + 1, np.int64)
    np.cumsum(sum(column.sizes for column in columns), out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for column in columns:
        _put(out, at, column)
        at += column.sizes
    return binary_array(out, offsets.astype(np.int32))


def _joined(*parts: pa.Array) -> pa.Array:
    """The elements of all parts put together row by row; one that is null counts as empty."""
    nothing = binary_array(b"", np.zeros(2, np.int32))[0]
    return _compute.call_function("binary_join_element_wise", [*parts, nothing], _NULL_IS_EMPTY)


# Records


def encode_headers(column: pa.Array) -> pa.Array:
    """The headers of each row as they stand in a record, from a list of structs (key string, value binary).

    A null list is an empty one. Raises ``NoHeaderError`` if a key is null.
    """
    counts = np.maximum(lengths(column), 0)
    entries = column.flatten()
    names = [field.name for field in entries.type]
    fields = dict(zip(names, entries.flatten(), strict=True))
    keys, values = fields["key"].cast(pa.binary()), fields["value"].cast(pa.binary())
    if keys.null_count:
        raise NoHeaderError("a header has no key", hint="only the value of a header may be null")
    key_sizes, value_sizes = _varints(lengths(keys)), _varints(lengths(values))
    encoded = _joined(_written(key_sizes), keys, _written(value_sizes), values)
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    by_row = bounds(encoded)[ends] if len(encoded) else np.zeros(len(ends), np.int32)
    data = encoded.buffers()[2] if len(encoded) else b""
    return _joined(_written(_varints(counts)), binary_array(data, by_row))


def sizes_at_most(columns: RecordColumns) -> Int64s:
    """How many bytes each record takes in a batch, at most."""
    sizes = np.maximum(lengths(columns.values), 0) + _RECORD_OVERHEAD
    if columns.keys is not None:
        sizes += np.maximum(lengths(columns.keys), 0)
    if columns.headers is not None:
        sizes += lengths(columns.headers)
    return sizes


def cut(sizes: Int64s, limit: int) -> list[int]:
    """Where batches begin so that each has at most ``limit`` bytes; a larger record has one for itself."""
    ends = np.cumsum(sizes)
    starts: list[int] = []
    start = 0
    while start < len(sizes):
        starts.append(start)
        before = int(ends[start - 1]) if start else 0
        start = max(start + 1, int(np.searchsorted(ends, before + limit, "right")))
    return starts


def encode_payloads(
    columns: RecordColumns, starts: Sequence[int], codec: Codec = Codec.NONE
) -> Iterator[Payload]:
    """The payload of each batch; one begins at each of the rows ``starts``, of which 0 is the first.

    All rows together must have less than 2 GiB.
    """
    first = np.asarray(starts, np.int64)
    counts = np.diff(first, append=len(columns))
    encoded = _encode(columns, np.repeat(first, counts))
    at = bounds(encoded)[np.append(first, len(columns))]
    data = memoryview(encoded.buffers()[2])
    newest = np.maximum.reduceat(columns.timestamps, first)
    for number, (start, count) in enumerate(zip(starts, counts, strict=True)):
        content = data[at[number] : at[number + 1]]
        yield Payload(
            compress(codec, content) if codec else content,
            codec,
            int(count),
            int(columns.timestamps[start]),
            int(newest[number]),
        )


def _encode(columns: RecordColumns, batch_start: Int64s) -> pa.Array:
    """All records, each with its length in front; ``batch_start`` is the first row of the batch it is in."""
    rows = len(columns)
    key_lengths = np.full(rows, NULL) if columns.keys is None else lengths(columns.keys)
    value_lengths = lengths(columns.values)
    attributes = _Varints(np.zeros(rows, np.uint64), np.ones(rows, np.int64))
    timestamp_deltas = _varints(columns.timestamps - columns.timestamps[batch_start])
    offset_deltas = _varints(np.arange(rows) - batch_start)
    key_sizes, value_sizes = _varints(key_lengths), _varints(value_lengths)
    numbers = (attributes, timestamp_deltas, offset_deltas, key_sizes)
    sizes = sum(column.sizes for column in (*numbers, value_sizes))
    sizes += np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    sizes += 1 if columns.headers is None else lengths(columns.headers)
    keys = [] if columns.keys is None else [columns.keys]
    no_headers = binary_array(b"\0", np.array([0, 1], np.int32))[0]
    return _joined(
        _written(_varints(sizes), *numbers),
        *keys,
        _written(value_sizes),
        columns.values,
        no_headers if columns.headers is None else columns.headers,
    )
