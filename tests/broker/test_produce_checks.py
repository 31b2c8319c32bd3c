"""Produce: batches that are not what they should be, and what each is answered with.

What Kafka answers in every version is recorded: ``tests/interop/scripts/produce.py``.
"""

import struct

import pytest
from tests.broker.asking import T0, append, batch, create, produce
from tests.broker.raw import Raw

from kohort.model.errors import ErrorCode
from kohort.primitives.crc import crc32c
from kohort.records.batch import BatchFields
from kohort.records.compression import Codec

BASE_OFFSET, CRC, ATTRIBUTES, LAST_DELTA, COUNT = 0, 17, 21, 23, 57


def patched(blob: bytes, position: int, layout: str, value: int) -> bytes:
    """A batch with one header field overwritten, and a checksum that fits again."""
    changed = bytearray(blob)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, CRC, crc32c(bytes(changed[ATTRIBUTES:])))
    return bytes(changed)


WHOLE = batch("a", "b")
NUMBERED = BatchFields(producer_id=4, producer_epoch=0, base_sequence=0)
REFUSED = {
    "null": None,  # Kafka fails on it without ever answering
    "base offset -1": patched(WHOLE, BASE_OFFSET, ">q", -1),
    "count and delta of three": patched(patched(WHOLE, COUNT, ">i", 3), LAST_DELTA, ">i", 2),
    "gzip that is none": patched(WHOLE, ATTRIBUTES, ">h", 1),
    "zstd that is none": patched(WHOLE, ATTRIBUTES, ">h", 4),
    "a producer without a sequence": batch("a", fields=NUMBERED._replace(base_sequence=-1)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_damaged_batch_is_refused_and_the_next_good_one_is_not(raw: Raw, what: str) -> None:
    create(raw, "t")
    result = produce(raw, "t", REFUSED[what])
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert result.error_message
    assert append(raw, "t", WHOLE) == 0


def test_at_most_a_thousand_records_are_named(raw: Raw) -> None:
    create(raw, "t", cleanup_policy="compact")
    result = produce(raw, "t", batch(*["v"] * 5_000, key=None))
    assert [error.batch_index for error in result.record_errors] == list(range(1_000))
    assert "5000 records" in result.error_message


def test_a_topic_can_set_its_own_bounds_for_timestamps(raw: Raw) -> None:
    create(raw, "t", message_timestamp_before_max_ms=1_000, message_timestamp_after_max_ms=2_000)
    for at, code in ((T0 - 1_001, 32), (T0 - 1_000, 0), (T0 + 2_000, 0), (T0 + 2_001, 32)):
        assert produce(raw, "t", batch("a", at=at)).error_code == code, at - T0


@pytest.mark.slow
def test_a_batch_that_grows_beyond_128_mib_is_too_large(raw: Raw) -> None:
    create(raw, "t")
    bomb = batch("\0" * 140_000_000, fields=BatchFields(codec=Codec.ZSTD))
    assert len(bomb) < 1_000_000
    result = produce(raw, "t", bomb)
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
