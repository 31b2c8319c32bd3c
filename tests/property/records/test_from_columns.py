"""Batches made of Arrow columns are those made of records, byte for byte."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import lib as pa

from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.build import frame_payload
from kohort.records.compression import Codec
from kohort.records.from_columns import RecordColumns, cut, encode_headers, encode_payloads, sizes_at_most

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

steady = settings(derandomize=True, deadline=None, max_examples=100)
contents = st.none() | st.binary(max_size=40) | st.integers(0, 20_000).map(lambda size: b"x" * size)
header_lists = st.lists(st.tuples(st.text(max_size=80), st.none() | st.binary(max_size=70)), max_size=4)
timestamps = st.integers(0, 2**41) | st.integers(0, 2**62)
records = st.builds(NewRecord, timestamps, contents, contents, header_lists)


def columns_of(rows: list[NewRecord]) -> RecordColumns:
    headers = [[{"key": name, "value": value} for name, value in row.headers] or None for row in rows]
    return RecordColumns(
        timestamps=np.array([row.timestamp for row in rows], np.int64),
        keys=pa.array([row.key for row in rows], pa.binary()),
        values=pa.array([row.value for row in rows], pa.binary()),
        headers=encode_headers(pa.array(headers, HEADERS)),
    )


@steady
@given(st.lists(records, min_size=1, max_size=12), st.sampled_from(Codec), st.integers(1, 30_000), st.data())
def test_columns_make_the_same_batches_as_records(
    rows: list[NewRecord], codec: Codec, limit: int, data: st.DataObject
) -> None:
    columns = columns_of(rows)
    sizes = sizes_at_most(columns)
    starts = cut(sizes, limit)
    fields = BatchFields(
        codec=codec, producer_id=7, producer_epoch=1, base_sequence=data.draw(st.integers(0, 9))
    )

    made = [frame_payload(payload, fields) for payload in encode_payloads(columns, starts, codec)]

    pieces = [rows[start:stop] for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True)]
    assert made == [build_batch(piece, fields) for piece in pieces]
    assert all(
        len(piece) == 1 or int(sizes[at : at + len(piece)].sum()) <= limit
        for at, piece in zip(starts, pieces, strict=True)
    )


@steady
@given(st.lists(records, min_size=1, max_size=12), st.data())
def test_rows_are_taken_in_the_order_asked_for_also_from_a_slice(
    rows: list[NewRecord], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    columns = columns_of([rows[-1], *rows])
    sliced = RecordColumns(
        timestamps=columns.timestamps[1:],
        keys=columns.keys and columns.keys.slice(1),
        values=columns.values.slice(1),
        headers=columns.headers and columns.headers.slice(1),
    )

    taken = sliced.take(np.array(chosen, np.int64))
    [payload] = encode_payloads(taken, [0])

    assert frame_payload(payload) == build_batch([rows[number] for number in chosen])
    [payload] = encode_payloads(sliced, [0])
    assert frame_payload(payload) == build_batch(rows)


@steady
@given(st.lists(records, min_size=1, max_size=12))
def test_no_record_is_larger_than_was_said(rows: list[NewRecord]) -> None:
    columns = columns_of(rows)
    sizes = sizes_at_most(columns)
    for number in range(len(rows)):
        [payload] = encode_payloads(columns.take(np.array([number])), [0])
        assert len(payload.content) <= sizes[number]
