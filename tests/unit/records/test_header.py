"""The header of a batch."""

import pytest

from kohort.records.batch import (
    HEADER_SIZE,
    BatchFields,
    BatchHeader,
    CorruptBatchError,
    LegacyFormatError,
    NewRecord,
    batches,
    build_batch,
    check_crc,
    patch_append_time,
    patch_create_time,
    patch_offsets,
    read_header,
    read_records,
)
from kohort.records.compression import Codec

T = 1_700_000_000_000
FIELDS = BatchFields(
    base_offset=70,
    leader_epoch=6,
    codec=Codec.LZ4,
    producer_id=9,
    producer_epoch=2,
    base_sequence=5,
    transactional=True,
)
BATCH = build_batch(
    [NewRecord(T, b"k", b"v"), NewRecord(T + 8, b"k", b"v"), NewRecord(T + 3, None, b"")], FIELDS
)


def test_a_header_gives_back_its_fields() -> None:
    header = read_header(b"xx" + BATCH, 2)
    assert header == BatchHeader(
        base_offset=70,
        batch_length=len(BATCH) - 12,
        partition_leader_epoch=6,
        magic=2,
        crc=int.from_bytes(BATCH[17:21], "big"),
        attributes=0x13,
        last_offset_delta=2,
        base_timestamp=T,
        max_timestamp=T + 8,
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
        records_count=3,
    )


def test_a_header_answers_questions() -> None:
    header = read_header(BATCH)
    assert (header.size, header.last_offset, header.next_offset) == (len(BATCH), 72, 73)
    assert (header.codec, header.last_sequence, header.delete_horizon) == (Codec.LZ4, 7, None)
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (True, False, False)


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (-1, 4, -1), (0, 0, 0)]
)
def test_sequence_numbers_wrap(base: int, delta: int, last: int) -> None:
    header = read_header(BATCH)._replace(base_sequence=base, last_offset_delta=delta)
    assert header.last_sequence == last


def test_the_attributes_of_a_cleaned_batch_hold_its_horizon() -> None:
    header = read_header(BATCH)._replace(attributes=0x40, base_timestamp=T + 1)
    assert header.delete_horizon == T + 1


@pytest.mark.parametrize("length", [0, 16, 17, 60])
def test_a_header_that_is_cut_off_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"{length} bytes at byte 0 are not a batch header"):
        read_header(BATCH[:length])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [17, len(BATCH)])
def test_an_old_message_set_has_its_own_error(magic: int, size: int) -> None:
    old = bytearray(BATCH[:size])
    old[16] = magic
    with pytest.raises(LegacyFormatError, match=f"magic {magic} at byte 0: unsupported legacy format"):
        read_header(old)


@pytest.mark.parametrize("magic", [3, 0xFF])
def test_a_magic_that_does_not_exist_is_corrupt(magic: int) -> None:
    batch = bytearray(BATCH)
    batch[16] = magic
    with pytest.raises(CorruptBatchError, match="has magic") as caught:
        read_header(batch)
    assert not isinstance(caught.value, LegacyFormatError)


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_length_below_that_of_a_header_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="less than its header"):
        read_header(BATCH[:8] + length.to_bytes(4, "big", signed=True) + BATCH[12:])


def test_batches_are_found_up_to_one_that_is_cut_off() -> None:
    other = build_batch([NewRecord(T, b"k", b"v")], BatchFields(base_offset=73))
    whole = BATCH + other
    assert [(position, header.base_offset) for position, header in batches(whole)] == [
        (0, 70),
        (len(BATCH), 73),
    ]
    for cut in range(len(BATCH), len(whole)):
        assert len(list(batches(whole[:cut]))) == 1
    assert [position for position, _ in batches(memoryview(whole), len(BATCH))] == [len(BATCH)]


def test_batches_do_not_go_past_one_that_is_corrupt() -> None:
    found = batches(BATCH + bytes(HEADER_SIZE))
    assert next(found)[0] == 0
    with pytest.raises(LegacyFormatError):
        next(found)


def test_a_checksum_is_checked_where_the_batch_stands() -> None:
    check_crc(b"xx" + BATCH, 2, read_header(BATCH))
    flipped = bytearray(BATCH)
    flipped[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="offset 70: the checksum says"):
        check_crc(flipped, 0, read_header(flipped))


def test_a_batch_that_is_not_whole_has_no_checksum() -> None:
    with pytest.raises(CorruptBatchError, match="1 are missing"):
        check_crc(BATCH[:-1], 0, read_header(BATCH))
    with pytest.raises(CorruptBatchError, match="1 are missing"):
        read_records(BATCH[:-1])


def test_the_leader_sets_offset_and_epoch_without_touching_the_checksum() -> None:
    batch = bytearray(BATCH)
    patch_offsets(batch, 1 << 40, 8)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.base_offset, header.partition_leader_epoch, header.crc) == (
        1 << 40,
        8,
        read_header(BATCH).crc,
    )


def test_the_append_time_becomes_that_of_every_record() -> None:
    batch = bytearray(BATCH)
    patch_append_time(batch, T + 1000)
    check_crc(batch, 0, read_header(batch))
    assert {record.timestamp for record in read_records(batch)} == {T + 1000}


def test_records_can_have_their_own_timestamps_again() -> None:
    batch = bytearray(BATCH)
    patch_append_time(batch, T + 1000)
    patch_create_time(batch, T + 8)
    assert batch == BATCH
