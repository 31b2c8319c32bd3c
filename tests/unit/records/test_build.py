"""Batches as they are built, against bytes that Kafka writes."""

from kohort.records.batch import BatchFields, NewRecord, build_batch

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
