"""Markers that end a transaction."""

import pytest

from kohort.records.batch import BatchFields, CorruptBatchError, Record, read_header, read_records
from kohort.records.control import ControlType, EndMarker, build_end_marker, control_type, read_end_marker

T = 1_700_000_000_000

COMMIT = bytes.fromhex("""
    0000000000000007 00000042 00000000 02 38b9bf5b 0030 00000000 0000018bcfe56800 0000018bcfe56800
    0000000000000009 0002 ffffffff 00000001   20 00 00 00 08 00000001 0c 000000000004 00
""")


def test_a_commit_marker_is_the_bytes_kafka_writes() -> None:
    fields = BatchFields(base_offset=7, leader_epoch=0, producer_id=9, producer_epoch=2)
    assert build_end_marker(EndMarker(ControlType.COMMIT, 4), T, fields) == COMMIT


def test_a_commit_marker_is_read() -> None:
    header = read_header(COMMIT)
    assert header.is_control
    assert header.is_transactional
    [record] = read_records(COMMIT)
    assert read_end_marker(record) == EndMarker(ControlType.COMMIT, 4)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("00000000", ControlType.ABORT),
        ("00000001", ControlType.COMMIT),
        ("00070001 ffff", ControlType.COMMIT),
        ("00000002", None),
        ("0000ffff", None),
    ],
)
def test_a_control_record_tells_its_type_whatever_its_version(key: str, kind: ControlType | None) -> None:
    assert control_type(bytes.fromhex(key)) is kind


def test_a_control_record_of_another_kind_is_no_marker() -> None:
    assert read_end_marker(Record(0, T, bytes.fromhex("00000002"), None)) is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_control_record_without_a_type_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptBatchError, match="4 bytes"):
        control_type(key)


@pytest.mark.parametrize("value", [None, bytes(5)])
def test_a_marker_without_a_coordinator_epoch_is_corrupt(value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError, match="COMMIT marker at offset 3"):
        read_end_marker(Record(3, T, b"\x00\x00\x00\x01", value))
