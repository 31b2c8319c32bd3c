"""Batches as they are built, against bytes that Kafka writes."""

import pytest

from kohort.records.batch import (
    BatchFields,
    CorruptBatchError,
    NewRecord,
    Record,
    build_batch,
    check_crc,
    read_header,
    read_records,
    rebuild_batch,
)
from kohort.records.build import recompress_batch
from kohort.records.compression import Codec

T = 1_700_000_000_000

GOLDEN = bytes.fromhex("""
    0000000000000000 00000068 00000000 02 645913bf 0000 00000001 0000018bcfe56800 0000018bcfe56800
    ffffffffffffffff ffff ffffffff 00000002
    54 00 00 00 18 000100016700017400000003 30 0003000000000000002affffffff00000000018bcfe56800 00
    16 00 00 02 0a 0002000167 01 00
""")


def test_a_batch_is_the_bytes_kafka_writes() -> None:
    offset_key = bytes.fromhex("000100016700017400000003")
    offset_value = bytes.fromhex("0003000000000000002affffffff00000000018bcfe56800")
    records = [NewRecord(T, offset_key, offset_value), NewRecord(T, bytes.fromhex("0002000167"), None)]
    assert build_batch(records, BatchFields(leader_epoch=0)) == GOLDEN


def test_the_newest_timestamp_is_found_wherever_it_stands() -> None:
    records = [NewRecord(T + delta, None, None) for delta in (0, 9, -3, 4)]
    header = read_header(build_batch(records))
    assert (header.base_timestamp, header.max_timestamp, header.records_count) == (T, T + 9, 4)
    assert [record.timestamp - T for record in read_records(build_batch(records))] == [0, 9, -3, 4]


def test_a_batch_may_be_built_with_its_append_time() -> None:
    batch = build_batch(
        [NewRecord(T, None, b"v"), NewRecord(T + 9, None, b"v")], BatchFields(append_time=T + 5)
    )
    assert [record.timestamp for record in read_records(batch)] == [T + 5, T + 5]


def test_a_batch_without_records_is_not_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def batch_of_five(codec: Codec = Codec.NONE) -> bytes:
    records = [NewRecord(T + place, f"key{place}".encode(), b"v", [("h", b"x")]) for place in range(5)]
    fields = BatchFields(40, 3, codec, producer_id=9, producer_epoch=2, base_sequence=17, transactional=True)
    return build_batch(records, fields)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_keeps_its_place_and_producer_when_records_are_taken_out(codec: Codec) -> None:
    batch = batch_of_five(codec)
    header, records = read_header(batch), read_records(batch)
    rebuilt = rebuild_batch(header, [records[1], records[3]])
    after = read_header(rebuilt)
    check_crc(rebuilt, 0, after)
    assert read_records(rebuilt) == [records[1], records[3]]
    assert after._replace(batch_length=0, crc=0) == header._replace(
        batch_length=0, crc=0, records_count=2, base_timestamp=T + 1, max_timestamp=T + 3
    )


def test_rebuilding_with_all_records_changes_nothing() -> None:
    batch = batch_of_five()
    assert rebuild_batch(read_header(batch), read_records(batch)) == batch


def test_a_batch_without_any_record_left_still_holds_its_place() -> None:
    header = read_header(batch_of_five(Codec.GZIP))
    rebuilt = rebuild_batch(header, [], delete_horizon=T + 70)
    after = read_header(rebuilt)
    check_crc(rebuilt, 0, after)
    assert read_records(rebuilt) == []
    assert after._replace(crc=0) == header._replace(
        batch_length=49, crc=0, records_count=0, base_timestamp=-1, attributes=0x10
    )
    assert after.next_offset == 45


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = batch_of_five()
    records = read_records(batch)
    cleaned = rebuild_batch(read_header(batch), records, delete_horizon=T + 86_400_000)
    assert read_header(cleaned).delete_horizon == read_header(cleaned).base_timestamp == T + 86_400_000
    assert read_header(cleaned).max_timestamp == T + 4
    assert read_records(cleaned) == records
    again = rebuild_batch(read_header(cleaned), records[2:])
    assert read_header(again).delete_horizon == T + 86_400_000
    assert read_records(again) == records[2:]


def test_append_time_stays_when_a_batch_is_rebuilt() -> None:
    batch = build_batch([NewRecord(T, b"a", b"v"), NewRecord(T, b"b", b"v")], BatchFields(append_time=T + 5))
    rebuilt = rebuild_batch(read_header(batch), read_records(batch)[1:], codec=Codec.ZSTD)
    assert [(record.key, record.timestamp) for record in read_records(rebuilt)] == [(b"b", T + 5)]
    assert read_header(rebuilt).codec == Codec.ZSTD


@pytest.mark.parametrize("offsets", [(39,), (45,), (41, 40), (41, 41)])
def test_offsets_that_do_not_belong_into_the_batch_are_refused(offsets: tuple[int, ...]) -> None:
    header = read_header(batch_of_five())
    with pytest.raises(CorruptBatchError):
        rebuild_batch(header, [Record(offset, T, None, None) for offset in offsets])


def test_a_payload_can_get_another_codec() -> None:
    batch = batch_of_five()
    other = recompress_batch(read_header(batch), batch[61:], Codec.SNAPPY)
    check_crc(other, 0, read_header(other))
    assert read_header(other).codec == Codec.SNAPPY
    assert read_records(other) == read_records(batch)
