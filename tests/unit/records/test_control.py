"""Markers that end a transaction."""

import pytest
from tests.unit.records.markers import end_marker

from kohort.records.batch import BatchFields, CorruptBatchError, read_header, read_records
from kohort.records.control import ControlType, control_type

T = 1_700_000_000_000

COMMIT = bytes.fromhex("""
    0000000000000007 00000042 00000000 02 38b9bf5b 0030 00000000 0000018bcfe56800 0000018bcfe56800
    0000000000000009 0002 ffffffff 00000001   20 00 00 00 08 00000001 0c 000000000004 00
""")


def test_a_commit_marker_is_the_bytes_kafka_writes() -> None:
    fields = BatchFields(base_offset=7, leader_epoch=0, producer_id=9, producer_epoch=2)
    assert end_marker(ControlType.COMMIT, T, fields, 4) == COMMIT


def test_a_commit_marker_is_read() -> None:
    header = read_header(COMMIT)
    assert header.is_control
    assert header.is_transactional
    [record] = read_records(COMMIT)
    assert control_type(record.key) is ControlType.COMMIT


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


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_control_record_without_a_type_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptBatchError, match="4 bytes"):
        control_type(key)
