"""Batches of ``__consumer_offsets`` to Arrow columns.

Commits whose lengths add up are read with numpy, all of a section at once; every other record takes the slow
way of ``record_rows``. Both give the same columns. Needs numpy and pyarrow: import it late.
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pyarrow import lib as pa

from kohort.lake.columns import COLUMNS, OFFSET_COMMIT
from kohort.lake.record_rows import RawRecord, Row, control_row, row_of
from kohort.records.batch import read_records
from kohort.records.columns.read import read_columns
from kohort.records.columns.spans import Bytes, Columns, Flags, Ints
from kohort.records.columns.table import BatchTable, Sifting
from kohort.records.header import CONTROL

_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}
SCHEMA = pa.schema([pa.field(name, _TYPES[kind]) for name, kind in COLUMNS.items()])
_MICROS = 1_000
_LARGEST_MILLIS = 253_402_214_400_000  # the last day of the year 9999: what Python and Spark have dates for
_NO_PRODUCER = -1
_ROWS = 20_000  # in one Arrow batch at most
_KEY_FIXED, _PARTITION_SIZE = 8, 4  # type, two lengths of strings; and the partition
_EPOCH_SIZE, _TIME_SIZE, _ID_SIZE = 4, 8, 16
_V1, _V3, _V4 = 1, 3, 4
_ID_CHARACTERS = 22
_BASE64 = np.frombuffer(
    f"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}-_".encode(), np.uint8
)


class SegmentSlice(NamedTuple):
    """Which records of a partition of ``__consumer_offsets``: ``start <= offset < end``."""

    partition: int
    start: int = 0
    end: int = (1 << 63) - 1


def decode_table(table: BatchTable, wanted: SegmentSlice) -> Iterator[pa.RecordBatch]:
    """The records and markers of whole batches; the rows of a batch are in no special order.

    Raises ``CorruptBatchError`` for a batch that cannot be read, after the records of those before it.
    """
    yield from _markers(table, wanted)
    producers = table.numbers("producer_id")
    bases = table.numbers("base_offset")
    has_producers = bool((producers != _NO_PRODUCER).any())
    for columns in read_columns(table, Sifting(wanted.start, end=wanted.end)):
        of_records = (
            producers[np.searchsorted(bases, columns.offsets, side="right") - 1] if has_producers else None
        )
        yield from decode_columns(columns, wanted, of_records)


def _markers(table: BatchTable, wanted: SegmentSlice) -> Iterator[pa.RecordBatch]:
    """Control batches, which ``read_columns`` leaves out. There are few."""
    rows: list[Row] = []
    for index in np.flatnonzero(table.headers["attributes"] & CONTROL).tolist():
        header = table.header(index)
        rows += [
            control_row(RawRecord(one.offset, one.timestamp, one.key, one.value, header.producer_id))
            for one in read_records(table.blob, int(table.positions[index]), header)
            if wanted.start <= one.offset < wanted.end
        ]
    if rows:
        yield rows_batch(rows, wanted.partition)


def decode_columns(
    columns: Columns, wanted: SegmentSlice, producers: Ints | None
) -> Iterator[pa.RecordBatch]:
    """The records of one section, as commits that were read in columns, then all others."""
    inside = (columns.offsets >= wanted.start) & (columns.offsets < wanted.end)
    data = np.frombuffer(columns.data, np.uint8)
    commits = _find_commits(columns, data)
    plain = np.flatnonzero(inside & commits.are_plain)
    for first in range(0, len(plain), _ROWS):
        chosen = plain[first : first + _ROWS]
        try:
            yield commits.batch(chosen, wanted.partition, producers)
        except pa.ArrowInvalid:  # a name is not UTF-8
            yield _one_by_one(columns, chosen, wanted, producers)
    others = np.flatnonzero(inside & ~commits.are_plain)
    for first in range(0, len(others), _ROWS):
        yield _one_by_one(columns, others[first : first + _ROWS], wanted, producers)


def _one_by_one(
    columns: Columns, chosen: Ints, wanted: SegmentSlice, producers: Ints | None
) -> pa.RecordBatch:
    return rows_batch([_row(columns, index, producers) for index in chosen.tolist()], wanted.partition)


def _row(columns: Columns, index: int, producers: Ints | None) -> Row:
    view = memoryview(columns.data)
    key_at, key_end, value_at, value_end = columns.bounds[4 * index : 4 * index + 4].tolist()
    return row_of(
        RawRecord(
            int(columns.offsets[index]),
            int(columns.timestamps[index]),
            bytes(view[key_at:key_end]) if columns.keys[index] else None,
            bytes(view[value_at:value_end]) if columns.values[index] else None,
            _NO_PRODUCER if producers is None else int(producers[index]),
        )
    )


# --- commits, with numpy ------------------------------------------------------------------------


class _Commits(NamedTuple):
    """Where the fields of each record are, if it is a commit; elements of other records mean nothing."""

    columns: Columns
    data: Bytes
    are_plain: Flags  # which records are commits, or tombstones of them, whose lengths add up
    have_value: Flags
    versions: Ints
    group_at: Ints
    group_end: Ints
    topic_at: Ints
    topic_end: Ints
    metadata_at: Ints
    metadata_end: Ints

    def batch(self, rows: Ints, partition: int, producers: Ints | None) -> pa.RecordBatch:
        number = len(rows)
        valued = self.have_value[rows]
        versions = self.versions[rows]
        values_at = self.columns.bounds[2:-1:4][rows].astype(np.int64)
        times_at = np.where(valued, self.metadata_end[rows], 0)
        with_epoch, with_expiry = valued & (versions >= _V3), valued & (versions == _V1)
        committed_at = self._read(times_at, 8, valued)
        expiring_at = self._read(times_at + _TIME_SIZE, 8, with_expiry)
        epochs = np.where(with_epoch, self._read(values_at + 10, 4, with_epoch), -1)
        group, topic, metadata = self._texts(rows, valued)
        made: dict[str, pa.Array] = {
            "src_partition": _numbers(pa.int32(), np.full(number, partition, np.int32)),
            "src_offset": _numbers(pa.int64(), self.columns.offsets[rows]),
            "ts": _times(self.columns.timestamps[rows], None),
            "kind": _repeated(OFFSET_COMMIT, number),
            "record_type": _numbers(
                pa.int32(), self._read(self.columns.bounds[0:-1:4][rows].astype(np.int64), 2, None)
            ),
            "version": _numbers(pa.int32(), versions, valued),
            "tombstone": pa.Array.from_buffers(pa.bool_(), number, [None, _bitmap(~valued)]),
            "group_id": group,
            "topic": topic,
            "partition": _numbers(pa.int32(), self._read(self.topic_end[rows], 4, None)),
            "committed": _numbers(pa.int64(), self._read(values_at + 2, 8, valued), valued),
            "leader_epoch": _numbers(pa.int32(), epochs, valued),
            "metadata": metadata,
            "commit_ts": _times(committed_at, valued & (committed_at != -1)),
            "expire_ts": _times(expiring_at, with_expiry & (expiring_at != -1)),
            "topic_id": self._topic_ids(times_at + _TIME_SIZE, valued & (versions == _V4)),
        }
        if producers is not None:
            made["producer_id"] = _numbers(pa.int64(), producers[rows], producers[rows] != _NO_PRODUCER)
        return _batch(made, number)

    def _read(self, at: Ints, size: int, where: Flags | None) -> Ints:
        """Signed big-endian numbers; 0 where there is none."""
        return _read(self.data, at if where is None else np.where(where, at, 0), size)

    def _texts(self, rows: Ints, valued: Flags) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Group, topic and metadata: Arrow copies them out of one array of all spans, which ascend."""
        metadata_at = np.where(valued, self.metadata_at[rows], self.topic_end[rows])
        metadata_end = np.where(valued, self.metadata_end[rows], self.topic_end[rows])
        ends = (self.group_at, self.group_end, self.topic_at, self.topic_end)
        bounds = np.empty(6 * len(rows) + 1, np.int32)
        for place, column in enumerate((*(each[rows] for each in ends), metadata_at, metadata_end)):
            bounds[place:-1:6] = column
        bounds[-1] = metadata_end[-1]
        spans = pa.Array.from_buffers(
            pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(self.columns.data)]
        )
        places = np.arange(len(rows)) * 6
        group, topic, metadata = (spans.take(_numbers(pa.int64(), places + at)) for at in (0, 2, 4))
        return _text(group, None), _text(topic, None), _text(metadata, valued)

    def _topic_ids(self, tags_at: Ints, where: Flags) -> pa.Array:
        tagged = np.flatnonzero(where)
        tagged = tagged[self.data[tags_at[tagged]] == 1]
        if not len(tagged):
            return _nulls(pa.string(), len(where))
        present = np.zeros(len(where), np.bool_)
        present[tagged] = True
        ends = np.zeros(len(where) + 1, np.int32)
        np.cumsum(present * np.int32(_ID_CHARACTERS), out=ends[1:])
        texts = _id_texts(self.data[tags_at[tagged, None] + 3 + np.arange(_ID_SIZE)])
        return pa.Array.from_buffers(
            pa.string(), len(where), [_bitmap(present), pa.py_buffer(ends), pa.py_buffer(texts)]
        )


def _id_texts(ids: Bytes) -> Bytes:
    """Rows of 16 bytes as rows of 22 characters: the base64 of ``uuid_text``, of all rows at once."""
    triples = np.zeros((len(ids), 6, 3), np.uint32)
    triples.reshape(len(ids), -1)[:, :_ID_SIZE] = ids
    bits = (triples[..., 0] << 16) | (triples[..., 1] << 8) | triples[..., 2]
    characters = _BASE64[(bits[..., None] >> np.array([18, 12, 6, 0], np.uint32)) & 63]
    return np.ascontiguousarray(characters.reshape(len(ids), -1)[:, :_ID_CHARACTERS])


def _find_commits(columns: Columns, data: Bytes) -> _Commits:
    """Look at all records as if they were commits, and keep those whose lengths say so."""
    key_at, key_end = columns.bounds[0:-1:4].astype(np.int64), columns.bounds[1:-1:4].astype(np.int64)
    value_at, value_end = columns.bounds[2:-1:4].astype(np.int64), columns.bounds[3:-1:4].astype(np.int64)
    fits = columns.keys & (key_end - key_at >= _KEY_FIXED + 2)
    safe = np.where(fits, key_at, 0)
    kind, group_length = _read(data, safe, 2), _read(data, safe + 2, 2)
    group_at = safe + 4
    group_end = group_at + group_length
    fits &= (kind == 0) | (kind == 1)
    fits &= (group_length >= 0) & (group_end + 2 + _PARTITION_SIZE <= key_end)
    topic_length = _read(data, np.where(fits, group_end, 0), 2)
    topic_at = group_end + 2
    topic_end = topic_at + topic_length
    fits &= (topic_length >= 0) & (topic_end + _PARTITION_SIZE == key_end)
    versions, metadata_at, metadata_end, has_value = _find_metadata(columns, data, (value_at, value_end))
    return _Commits(
        columns,
        data,
        fits & (has_value | ~columns.values),
        has_value,
        versions,
        group_at,
        group_end,
        topic_at,
        topic_end,
        metadata_at,
        metadata_end,
    )


def _find_metadata(
    columns: Columns, data: Bytes, bounds: tuple[Ints, Ints]
) -> tuple[Ints, Ints, Ints, Flags]:
    """Version, where the metadata begins and ends, and whether the value is as long as all that says."""
    begin, end = bounds
    length = end - begin
    good = columns.values & (length >= 20)  # version, offset, no metadata, time: the shortest there is
    safe = np.where(good, begin, 0)
    versions = _read(data, safe, 2)
    good &= (versions >= 0) & (versions <= _V4)
    flexible = versions == _V4
    at = safe + 10 + np.where(versions >= _V3, _EPOCH_SIZE, 0)
    good &= at + 2 <= end
    safe_at = np.where(good, at, 0)
    # A compact string has its length plus one in front; longer than a byte takes the slow way.
    compact = data[safe_at].astype(np.int64)
    size = np.where(flexible, compact - 1, _read(data, safe_at, 2))
    good &= (size >= 0) & (~flexible | (compact < 0x80))
    text_at = at + np.where(flexible, 1, 2)
    text_end = text_at + size
    behind = text_end + _TIME_SIZE + np.where(versions == _V1, _TIME_SIZE, 0)
    good &= behind <= end
    return versions, text_at, text_end, good & _tags_are_plain(data, good & flexible, flexible, (behind, end))


def _tags_are_plain(data: Bytes, look: Flags, flexible: Flags, bounds: tuple[Ints, Ints]) -> Flags:
    """No tags at all, or a topic id alone."""
    behind, end = bounds
    left = end - behind
    at = np.where(look & (left > 0), behind, 0)
    none = (data[at] == 0) & (left == 1)
    with_id = look & (left == 3 + _ID_SIZE)
    at = np.where(with_id, behind, 0)
    last = len(data) - 1
    is_id = (data[at] == 1) & (data[np.minimum(at + 1, last)] == 0)
    is_id &= data[np.minimum(at + 2, last)] == _ID_SIZE
    plain: Flags = ~flexible | none | (with_id & is_id)
    return plain


def _read(data: Bytes, at: Ints, size: int) -> Ints:
    """Signed big-endian numbers at these places; the places are inside the data, or 0."""
    last = len(data) - size
    if last < 0:
        return np.zeros(len(at), np.int64)
    at_every_byte: Ints = np.ndarray(last + 1, f">i{size}", data, strides=(1,))
    return at_every_byte[np.minimum(at, last)].astype(np.int64)


# --- Arrow --------------------------------------------------------------------------------------


def rows_batch(rows: Sequence[Row], partition: int) -> pa.RecordBatch:
    """Rows of ``record_rows`` as an Arrow batch; times in them are milliseconds."""
    made = {name: _array(kind, [row.get(name) for row in rows]) for name, kind in COLUMNS.items()}
    made["src_partition"] = _numbers(pa.int32(), np.full(len(rows), partition, np.int32))
    return _batch(made, len(rows))


def _batch(made: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    arrays = [made[field.name] if field.name in made else _nulls(field.type, rows) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(kind: str, values: Sequence[Any]) -> pa.Array:
    """Built from buffers, as all here: ``pyarrow.array`` would import pandas."""
    present = np.array([value is not None for value in values], np.bool_)
    match kind:
        case "string" | "binary":
            return _bytes(kind, values, present)
        case "boolean":
            flags = np.array([bool(value) for value in values], np.bool_)
            return pa.Array.from_buffers(pa.bool_(), len(values), [_bitmap(present), _bitmap(flags)])
        case "timestamp":
            return _times(np.array([value or 0 for value in values], np.int64), present)
        case _:
            return _numbers(_TYPES[kind], np.array([value or 0 for value in values], np.int64), present)


def _bytes(kind: str, values: Sequence[Any], present: Flags) -> pa.Array:
    pieces = [
        b"" if value is None else value.encode("utf-8", "replace") if isinstance(value, str) else value
        for value in values
    ]
    bounds = np.zeros(len(pieces) + 1, np.int32)
    np.cumsum([len(piece) for piece in pieces], out=bounds[1:])
    buffers = [_bitmap(present), pa.py_buffer(bounds), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(_TYPES[kind], len(pieces), buffers)


def _nulls(kind: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, kind)


def _numbers(kind: pa.DataType, numbers: npt.NDArray[Any], present: Flags | None = None) -> pa.Array:
    kept = np.ascontiguousarray(numbers.astype(np.int32 if kind == pa.int32() else np.int64, copy=False))
    bitmap = None if present is None or present.all() else _bitmap(present)
    return pa.Array.from_buffers(kind, len(kept), [bitmap, pa.py_buffer(kept)])


def _times(millis: Ints, present: Flags | None) -> pa.Array:
    """A client may write any number: what no date can hold becomes the nearest that does, from 1970 on."""
    return _numbers(_TYPES["timestamp"], np.clip(millis, 0, _LARGEST_MILLIS) * _MICROS, present)


def _repeated(text: str, times: int) -> pa.Array:
    name = text.encode()
    bounds = np.arange(0, len(name) * times + 1, len(name), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), times, [None, pa.py_buffer(bounds), pa.py_buffer(name * times)])


def _bitmap(present: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def _text(spans: pa.Array, present: Flags | None) -> pa.Array:
    """Bytes as text. Raises ArrowInvalid for what is not UTF-8."""
    found = spans.cast(pa.string())
    if present is None or present.all():
        return found
    return pa.Array.from_buffers(pa.string(), len(found), [_bitmap(present), *found.buffers()[1:]])
