"""Walking a segment: every batch up to the first that cannot be trusted."""

import pytest

from kohort.records.batch import BatchFields, NewRecord, build_batch, patch_offsets
from kohort.records.segments import DamagedSegmentError, Flaw, walk_segment

T = 1_700_000_000_000
RECORDS = [NewRecord(T, b"k", b"v")] * 3
OFFSETS = (100, 103, 110)
BATCHES = [build_batch(RECORDS, BatchFields(base_offset=offset)) for offset in OFFSETS]
SEGMENT = b"".join(BATCHES)
SECOND = len(BATCHES[0])


def damage(segment: bytes) -> DamagedSegmentError:
    with pytest.raises(DamagedSegmentError) as caught:
        list(walk_segment(segment, base_offset=100))
    return caught.value


def test_a_sound_segment_is_walked_to_its_end() -> None:
    found = list(walk_segment(SEGMENT, base_offset=100))
    assert [header.base_offset for _, header in found] == list(OFFSETS)
    assert [position for position, _ in found] == [0, SECOND, 2 * SECOND]


def test_an_empty_segment_has_no_batches() -> None:
    assert list(walk_segment(b"")) == []


def test_a_walk_may_start_at_any_batch() -> None:
    [_, (position, header)] = walk_segment(memoryview(SEGMENT), start=SECOND)
    assert (position, header.base_offset) == (2 * SECOND, 110)


def test_a_segment_cut_at_any_byte_is_good_up_to_its_last_whole_batch() -> None:
    for end in range(SECOND + 1, 2 * SECOND):
        found = damage(SEGMENT[:end])
        assert (found.position, found.flaw) == (SECOND, Flaw.CUT_OFF)


def test_a_tail_of_zeros_is_found() -> None:
    found = damage(SEGMENT + bytes(4096))
    assert (found.position, found.flaw) == (len(SEGMENT), Flaw.BAD_LENGTH)
    assert str(found) == f"at byte {len(SEGMENT)}: the declared length is too small for a batch"


@pytest.mark.parametrize("length", [-1, 0, 13, 14, 48])
def test_a_length_too_small_for_a_batch_is_found(length: int) -> None:
    batch = bytearray(SEGMENT)
    batch[SECOND + 8 : SECOND + 12] = length.to_bytes(4, "big", signed=True)
    assert damage(bytes(batch)).flaw is Flaw.BAD_LENGTH


@pytest.mark.parametrize(
    ("magic", "flaw"),
    [(0, Flaw.LEGACY_FORMAT), (1, Flaw.LEGACY_FORMAT), (3, Flaw.UNKNOWN_MAGIC), (0xFF, Flaw.UNKNOWN_MAGIC)],
)
def test_another_magic_is_found(magic: int, flaw: Flaw) -> None:
    batch = bytearray(SEGMENT)
    batch[SECOND + 16] = magic
    found = damage(bytes(batch))
    assert (found.position, found.flaw) == (SECOND, flaw)


def test_every_flipped_bit_under_the_checksum_is_found() -> None:
    for place in range(SECOND + 17, 2 * SECOND):
        batch = bytearray(SEGMENT)
        batch[place] ^= 0x10
        assert damage(bytes(batch)).position == SECOND


def test_checksums_may_be_left_out() -> None:
    batch = bytearray(SEGMENT)
    batch[-1] ^= 0x10
    assert len(list(walk_segment(batch, check=False))) == 3


@pytest.mark.parametrize("offset", [-1, 0, 102, (1 << 31) + 98, 1 << 40])
def test_an_offset_that_cannot_follow_is_found(offset: int) -> None:
    batch = bytearray(BATCHES[1])
    patch_offsets(batch, offset, 0)
    found = damage(BATCHES[0] + batch)
    assert (found.position, found.flaw) == (SECOND, Flaw.BAD_OFFSETS)


def test_without_a_base_offsets_must_only_increase() -> None:
    far = bytearray(BATCHES[1])
    patch_offsets(far, 1 << 40, 0)
    assert len(list(walk_segment(BATCHES[0] + far))) == 2
    with pytest.raises(DamagedSegmentError, match="offsets"):
        list(walk_segment(BATCHES[1] + BATCHES[0]))
