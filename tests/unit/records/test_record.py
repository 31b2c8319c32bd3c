"""Records inside a batch."""

import pytest

from kohort.records.batch import BatchHeader, CorruptBatchError, NewRecord, Record, build_batch, read_header
from kohort.records.record import decode_records, encode_record
from kohort.records.walk import walk_records

T = 1_700_000_000_000
HEADER = read_header(build_batch([NewRecord(T, None, None)]))


def header(count: int, **fields: int) -> BatchHeader:
    return HEADER._replace(records_count=count, base_offset=50, **fields)


def test_a_record_without_anything_has_seven_bytes() -> None:
    assert encode_record(0, 0, None, None, ()).hex() == "0c000000010100"


def test_a_record_with_everything_is_read_as_written() -> None:
    headers = [("é", b"x"), ("", None), ("k" * 100, b"")]
    payload = encode_record(-70_000, 3, b"k" * 200, b"v" * 70_000, headers)
    [record] = decode_records(payload, header(1))
    assert record == Record(53, T - 70_000, b"k" * 200, b"v" * 70_000, headers)


@pytest.mark.parametrize("size", [63, 64, 8191, 8192, 1_048_576])
def test_lengths_of_every_width_are_read(size: int) -> None:
    payload = encode_record(size, size, bytes(size), bytes(size), ())
    assert decode_records(payload, header(1)) == [Record(50 + size, T + size, bytes(size), bytes(size))]


def test_empty_and_null_are_different_things() -> None:
    payload = encode_record(0, 0, b"", None, ()) + encode_record(0, 1, None, b"", ())
    first, second = decode_records(payload, header(2))
    assert (first.key, first.value, second.key, second.value) == (b"", None, None, b"")


def test_a_header_key_that_is_no_text_survives_a_rewrite() -> None:
    payload = bytes.fromhex("16 00 00 00 01 01 02 04 ff6b 02 76")
    [record] = decode_records(payload, header(1))
    assert encode_record(0, 0, None, None, record.headers) == payload


def test_the_append_time_counts_where_it_is_set() -> None:
    payload = encode_record(5, 0, None, None, ())
    [record] = decode_records(payload, header(1, attributes=0x08, max_timestamp=T + 99))
    assert record.timestamp == T + 99


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("", "0 bytes cannot hold the 1 records"),
        ("0c000000010100 00", "1 bytes are left after 1 records"),
        ("0e000000010100 00", "should end at byte 8"),
        ("0a000000010100 00", "should end at byte 6"),
        ("0b000000010100", "should end at byte"),
        ("0c000000030100", "length before byte 5 is negative"),
        ("0c000000010300", "length before byte 6 is negative"),
        ("0c000000017e00", "cut off"),
        ("0c00000001ffffffffffff", "cut off, or is not a record"),
        ("0c000000010101", "0 bytes cannot hold the declared headers"),
        ("0c000000010102", "0 bytes cannot hold the declared headers"),
        ("10000000010102 0101", "has no key"),
        ("10000000010102 0003", "is negative"),
        ("10000000010102 0002", "should end at byte 9"),
        ("1e00ffffffffffffffffff0100 010100", "does not fit 64 bits"),
    ],
)
def test_a_payload_that_contradicts_itself_is_corrupt(payload: str, text: str) -> None:
    for read in (decode_records, walk_records):
        with pytest.raises(CorruptBatchError, match=text):
            read(bytes.fromhex(payload), header(1, base_timestamp=-10))


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_more_records_than_there_is_room_for_are_not_looked_for(count: int) -> None:
    for read in (decode_records, walk_records):
        with pytest.raises(CorruptBatchError, match="cannot hold"):
            read(bytes.fromhex("0c000000010100"), header(count))


@pytest.mark.parametrize("base", [-(1 << 63), (1 << 63) - 1])
def test_a_base_timestamp_at_the_end_of_time_is_corrupt(base: int) -> None:
    for read in (decode_records, walk_records):
        with pytest.raises(CorruptBatchError, match="no room for deltas"):
            read(bytes.fromhex("0c000000010100"), header(1, base_timestamp=base))


def test_no_records_need_no_bytes() -> None:
    assert decode_records(b"", header(0)) == []
