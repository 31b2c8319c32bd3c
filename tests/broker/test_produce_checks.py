"""Produce: batches that are not what they should be, and what each is answered with."""

import struct

import pytest
from tests.broker.asking import T0, append, batch, create, fetch, produce, records_of, values
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.primitives.crc import crc32c
from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.compression import Codec

BASE_OFFSET, LENGTH, EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, COUNT = 0, 8, 12, 16, 17, 21, 23, 57
HOUR = 3_600_000


def patched(blob: bytes, position: int, layout: str, value: int, *, sealed: bool = True) -> bytes:
    """A batch with one header field overwritten; ``sealed``: with a checksum that fits again."""
    changed = bytearray(blob)
    struct.pack_into(layout, changed, position, value)
    if sealed:
        struct.pack_into(">I", changed, CRC, crc32c(bytes(changed[ATTRIBUTES:])))
    return bytes(changed)


WHOLE = batch("a", "b")
NUMBERED = BatchFields(producer_id=4, producer_epoch=0, base_sequence=0)
REFUSED = {
    "null": (None, ErrorCode.INVALID_RECORD),
    "no bytes": (b"", ErrorCode.INVALID_RECORD),
    "seven bytes": (WHOLE[:7], ErrorCode.INVALID_RECORD),
    "two batches": (WHOLE + WHOLE, ErrorCode.INVALID_RECORD),
    "a tail of zeros": (WHOLE + bytes(20), ErrorCode.CORRUPT_MESSAGE),
    "cut in the middle": (WHOLE[:-3], ErrorCode.INVALID_RECORD),
    "wrong checksum": (patched(WHOLE, CRC, ">I", 1, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "length below a header": (patched(WHOLE, LENGTH, ">i", 20), ErrorCode.CORRUPT_MESSAGE),
    "negative length": (patched(WHOLE, LENGTH, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (patched(WHOLE, MAGIC, ">b", 0), ErrorCode.INVALID_RECORD),
    "magic 1": (patched(WHOLE, MAGIC, ">b", 1), ErrorCode.INVALID_RECORD),
    "magic 3": (patched(WHOLE, MAGIC, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
    "base offset 5": (patched(WHOLE, BASE_OFFSET, ">q", 5), ErrorCode.INVALID_RECORD),
    "base offset -1": (patched(WHOLE, BASE_OFFSET, ">q", -1), ErrorCode.INVALID_RECORD),
    "count 0": (patched(WHOLE, COUNT, ">i", 0), ErrorCode.INVALID_RECORD),
    "count -1": (patched(WHOLE, COUNT, ">i", -1), ErrorCode.INVALID_RECORD),
    "count 3": (patched(WHOLE, COUNT, ">i", 3), ErrorCode.INVALID_RECORD),
    "last delta 0": (patched(WHOLE, LAST_DELTA, ">i", 0), ErrorCode.INVALID_RECORD),
    "last delta -1": (patched(WHOLE, LAST_DELTA, ">i", -1), ErrorCode.INVALID_RECORD),
    "count and delta of three": (
        patched(patched(WHOLE, COUNT, ">i", 3), LAST_DELTA, ">i", 2),
        ErrorCode.INVALID_RECORD,
    ),
    "a control batch": (patched(WHOLE, ATTRIBUTES, ">h", 0x20), ErrorCode.INVALID_RECORD),
    "codec 5": (patched(WHOLE, ATTRIBUTES, ">h", 5), ErrorCode.INVALID_RECORD),
    "codec 7": (patched(WHOLE, ATTRIBUTES, ">h", 7), ErrorCode.INVALID_RECORD),
    "gzip that is none": (patched(WHOLE, ATTRIBUTES, ">h", 1), ErrorCode.INVALID_RECORD),
    "zstd that is none": (patched(WHOLE, ATTRIBUTES, ">h", 4), ErrorCode.INVALID_RECORD),
    "a producer without a sequence": (
        batch("a", fields=NUMBERED._replace(base_sequence=-1)),
        ErrorCode.INVALID_RECORD,
    ),
    "two hours ahead": (batch("a", at=T0 + 2 * HOUR), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_damaged_batch_is_refused_and_the_next_good_one_is_not(raw: Raw, what: str) -> None:
    blob, code = REFUSED[what]
    create(raw, "t")
    result = produce(raw, "t", blob)
    assert result.error_code == code
    assert result.error_message
    assert append(raw, "t", WHOLE) == 0


def test_a_batch_may_be_as_large_as_the_topic_allows_and_no_larger(raw: Raw) -> None:
    largest = batch("x" * 300)
    create(raw, "t", max_message_bytes=len(largest))
    assert produce(raw, "t", largest).error_code == 0
    assert produce(raw, "t", batch("x" * 301)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_default_limit_of_a_batch_is_kafkas(raw: Raw) -> None:
    create(raw, "t")
    overhead = len(batch("x" * 1_000_000)) - 1_000_000
    assert produce(raw, "t", batch("x" * (1_048_588 - overhead))).error_code == 0
    assert produce(raw, "t", batch("x" * (1_048_589 - overhead))).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_size_that_counts_is_the_compressed_one(raw: Raw) -> None:
    create(raw, "t", max_message_bytes=500)
    blob = batch("x" * 10_000, fields=BatchFields(codec=Codec.GZIP))
    assert produce(raw, "t", blob).error_code == 0


def test_a_batch_larger_than_a_segment_is_refused(raw: Raw) -> None:
    create(raw, "t", segment_bytes=1_048_576, max_message_bytes=3_000_000)
    result = produce(raw, "t", batch("x" * 1_100_000))
    assert result.error_code == ErrorCode.RECORD_LIST_TOO_LARGE


# Keys of compacted topics


def test_a_compacted_topic_refuses_null_keys_and_names_the_records(raw: Raw) -> None:
    create(raw, "t", cleanup_policy="compact")
    keys = (b"k", None, b"k", None)
    result = produce(raw, "t", build_batch([NewRecord(T0, key, b"v") for key in keys]))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [1, 3]
    assert all(error.batch_index_error_message for error in result.record_errors)
    assert values(raw, "t") == []


def test_at_most_a_thousand_records_are_named(raw: Raw) -> None:
    create(raw, "t", cleanup_policy="compact")
    result = produce(raw, "t", batch(*["v"] * 5_000, key=None))
    assert [error.batch_index for error in result.record_errors] == list(range(1_000))
    assert "5000 records" in result.error_message


def test_before_v8_there_is_no_place_for_the_records_and_the_code_is_the_same(raw: Raw) -> None:
    create(raw, "t", cleanup_policy="compact,delete")
    result = produce(raw, "t", batch("v", key=None), version=7)
    assert result.error_code == ErrorCode.INVALID_RECORD


def test_a_tombstone_is_welcome_in_a_compacted_topic(raw: Raw) -> None:
    create(raw, "t", cleanup_policy="compact")
    assert produce(raw, "t", build_batch([NewRecord(T0, b"k", None)])).error_code == 0


# Time


def test_a_timestamp_may_be_an_hour_ahead_and_any_time_behind(raw: Raw) -> None:
    create(raw, "t")
    for at in (T0 + HOUR, T0, 0, 1, -1):
        assert produce(raw, "t", batch("a", at=at)).error_code == 0, at
    assert produce(raw, "t", batch("a", at=T0 + HOUR + 1)).error_code == ErrorCode.INVALID_TIMESTAMP


def test_a_topic_can_set_its_own_bounds_for_timestamps(raw: Raw) -> None:
    create(raw, "t", message_timestamp_before_max_ms=1_000, message_timestamp_after_max_ms=2_000)
    for at, code in ((T0 - 1_001, 32), (T0 - 1_000, 0), (T0 + 2_000, 0), (T0 + 2_001, 32)):
        assert produce(raw, "t", batch("a", at=at)).error_code == code, at - T0


def test_records_out_of_bounds_are_named(raw: Raw) -> None:
    create(raw, "t", message_timestamp_before_max_ms=1_000)
    records = [NewRecord(at, b"k", b"v") for at in (T0, T0 - 5_000, T0)]
    result = produce(raw, "t", build_batch(records))
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in result.record_errors] == [1]


def test_a_client_may_not_claim_append_time_on_a_topic_that_has_it(raw: Raw) -> None:
    create(raw, "t", message_timestamp_type="LogAppendTime")
    claimed = patched(batch("a"), ATTRIBUTES, ">h", 0x08)
    assert produce(raw, "t", claimed).error_code == ErrorCode.INVALID_TIMESTAMP


def test_on_other_topics_the_claim_is_cleared(raw: Raw) -> None:
    create(raw, "t")
    append(raw, "t", patched(batch("a", at=T0 - 5), ATTRIBUTES, ">h", 0x08))
    stored = bytes(fetch(raw, "t").records)
    assert struct.unpack_from(">h", stored, ATTRIBUTES) == (0,)
    assert [record.timestamp for record in records_of(stored)] == [T0 - 5]


def test_an_old_timestamp_does_not_matter_where_the_broker_sets_it(raw: Raw) -> None:
    create(raw, "t", message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=10)
    assert produce(raw, "t", batch("a", at=5)).error_code == 0


# Records inside


def test_inner_offsets_out_of_order_are_numbered_anew(raw: Raw) -> None:
    create(raw, "t")
    blob = bytearray(WHOLE)
    position = blob.index(b"\x02\x02k\x02b")  # offset delta 1 of the second record, zig-zag
    blob[position] = 0x0E
    append(raw, "t", patched(bytes(blob), COUNT, ">i", 2))
    assert [record.offset for record in records_of(fetch(raw, "t").records)] == [0, 1]


@pytest.mark.slow
def test_a_batch_that_grows_beyond_128_mib_is_too_large(raw: Raw) -> None:
    create(raw, "t")
    bomb = batch("\0" * 140_000_000, fields=BatchFields(codec=Codec.ZSTD))
    assert len(bomb) < 1_000_000
    result = produce(raw, "t", bomb)
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
