"""What the property tests of from_columns do not reach: absent columns, many rows, refusals."""

import sys
from subprocess import run

import numpy as np
import pytest
from pyarrow import lib as pa

from kohort.records.batch import NewRecord, build_batch
from kohort.records.build import frame_payload
from kohort.records.from_columns import NoHeaderError, RecordColumns, cut, encode_headers, encode_payloads

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_a_column_that_is_absent_is_null_in_every_row() -> None:
    columns = RecordColumns(timestamps=np.array([5, 3, 9]), values=pa.array([b"a", None, b""], pa.binary()))
    [payload] = encode_payloads(columns, [0])
    rows = [NewRecord(5, None, b"a"), NewRecord(3, None, None), NewRecord(9, None, b"")]
    assert frame_payload(payload) == build_batch(rows)
    assert (payload.base_timestamp, payload.max_timestamp, payload.records_count) == (5, 9, 3)


def test_offset_deltas_of_three_bytes_are_written_whole() -> None:
    count = 9_000
    values = pa.array([b"v"] * count, pa.binary())
    [payload] = encode_payloads(RecordColumns(timestamps=np.zeros(count, np.int64), values=values), [0])
    assert frame_payload(payload) == build_batch([NewRecord(0, None, b"v")] * count)


def test_batches_are_cut_where_the_next_record_does_not_fit() -> None:
    assert cut(np.array([4, 4, 4, 4, 20, 1, 1]), 9) == [0, 2, 4, 5]
    assert cut(np.array([], np.int64), 9) == []


def test_a_header_without_a_key_is_refused() -> None:
    with pytest.raises(NoHeaderError, match="no key"):
        encode_headers(pa.array([[{"key": None, "value": b"v"}]], HEADERS))


def test_the_fields_of_a_header_are_known_by_name() -> None:
    turned = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))
    pairs = [[{"key": "k", "value": b"v"}], [], None, [{"key": "", "value": None}]]
    assert encode_headers(pa.array(pairs, turned)).equals(encode_headers(pa.array(pairs, HEADERS)))
    assert encode_headers(pa.array(pairs, HEADERS)).to_pylist() == [
        b"\x02\x02k\x02v",
        b"\x00",
        b"\x00",
        b"\x02\x00\x01",
    ]


def test_the_list_behind_a_null_is_not_written() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    structs = pa.array([{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}], HEADERS.value_type)
    column = pa.Array.from_buffers(HEADERS, 2, [pa.py_buffer(b"\x02"), offsets], children=[structs])
    assert encode_headers(column).to_pylist() == [b"\x00", b"\x02\x02b\x022"]


@pytest.mark.slow
def test_encoding_does_not_load_pandas() -> None:
    code = """
import sys
import numpy as np
from kohort.records.from_columns import RecordColumns, binary_array, encode_payloads
values = binary_array(b"abc", np.array([0, 1, 3], np.int32))
columns = RecordColumns(timestamps=np.zeros(2, np.int64), values=values, keys=values)
[payload] = encode_payloads(columns.take(np.array([1, 0])), [0])
sys.exit("pandas" in sys.modules)
"""
    assert run([sys.executable, "-c", code], check=False).returncode == 0
