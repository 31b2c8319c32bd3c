"""Records that are spotted all at once: the same as those one comes to by hopping, or none."""

from collections.abc import Callable, Sequence
from random import Random
from unittest import mock

import numpy as np
import pytest

from kohort.records.batch import BatchFields, NewRecord, build_batch
from kohort.records.columns import lanes, spotting
from kohort.records.columns.read import EVERYTHING
from kohort.records.columns.sections import sections
from kohort.records.columns.spans import Section
from kohort.records.columns.table import find_batches, sift
from kohort.records.compression import Codec
from kohort.records.errors import CorruptBatchError

NOW = 1_700_000_000_000
MakeRecord = Callable[[Random, int], NewRecord]


def text(dice: Random, number: int) -> NewRecord:
    return NewRecord(NOW + number // 50, b"%08d" % number, b"t" * dice.randint(0, 200), [])


def keyless(dice: Random, number: int) -> NewRecord:
    return NewRecord(NOW, None, b"t" * dice.randint(0, 200), [])


def noise(dice: Random, number: int) -> NewRecord:
    return NewRecord(NOW - number, dice.randbytes(8), dice.randbytes(dice.randint(0, 100)), [])


def zeros(dice: Random, number: int) -> NewRecord:
    return NewRecord(NOW, bytes(4), bytes(dice.randint(0, 100)), [])


def headed(dice: Random, number: int) -> NewRecord:
    return NewRecord(NOW, b"k", b"v", [("h", bytes(dice.randint(0, 3)))] * dice.randint(0, 1))


def huge(dice: Random, number: int) -> NewRecord:
    return NewRecord(NOW, b"k", b"v" * (9_000 if dice.random() < 0.01 else 10), [])


def log(make: MakeRecord, counts: Sequence[int], codec: Codec = Codec.NONE) -> bytes:
    dice, batches, offset = Random(7), [], 0
    for count in counts:
        records = [make(dice, offset + number) for number in range(count)]
        batches.append(build_batch(records, BatchFields(base_offset=offset, codec=codec)))
        offset += count
    return b"".join(batches)


def section_of(content: bytes) -> Section:
    (section,) = sections(sift(find_batches(content), EVERYTHING), 1 << 30)
    return section


def spotted(section: Section) -> list[list[int]] | None:
    found = spotting.spot(section, np.frombuffer(section.data, np.uint8))
    return None if found is None else [one.tolist() for one in found]


def hopped(section: Section) -> list[list[int]]:
    return [one.tolist() for one in lanes._walk(section, np.frombuffer(section.data, np.uint8))]


@pytest.mark.parametrize("stretch", [40, 1_000, 1 << 18])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("make", [text, keyless, noise])
def test_records_without_headers_are_spotted_where_they_are(
    make: MakeRecord, codec: Codec, stretch: int
) -> None:
    section = section_of(log(make, [400, 1, 3, 500, 70], codec))
    with mock.patch.object(spotting, "STRETCH", stretch):
        assert spotted(section) == hopped(section)


@pytest.mark.parametrize("make", [zeros, headed, huge])
def test_what_looks_otherwise_is_spotted_right_or_not_at_all(make: MakeRecord) -> None:
    for counts in ([300], [300, 300], [100] * 6):
        section = section_of(log(make, counts))
        assert spotted(section) in (None, hopped(section))


def test_few_records_and_long_ones_are_hopped_over() -> None:
    assert spotted(section_of(log(text, [spotting.FEWEST_RECORDS - 1]))) is None
    assert spotted(section_of(log(lambda dice, number: NewRecord(NOW, None, b"v" * 500, []), [300]))) is None


def test_many_batches_are_left_to_lanes() -> None:
    counts = np.array([50] * lanes.FEWEST_LANES)
    assert not lanes._has_few_lanes(counts)
    assert lanes._has_few_lanes(counts[1:])
    assert lanes._has_few_lanes(np.array([50] * lanes.FEWEST_LANES + [5_000] * 3))


def test_bytes_that_were_changed_are_spotted_as_they_are_hopped_over_or_not_at_all() -> None:
    """Every byte of a batch in turn: whatever is proved by the lengths is what hopping finds."""
    whole = bytearray(log(keyless, [3, 2]))
    section = section_of(bytes(whole))
    with mock.patch.object(spotting, "FEWEST_RECORDS", 1):
        assert spotted(section) == hopped(section)
        for place in range(int(section.starts[0]), len(whole)):
            for flip in (0x01, 0x80):
                damaged = bytearray(whole)
                damaged[place] ^= flip
                changed = section._replace(data=bytes(damaged))
                if (found := spotted(changed)) is not None:
                    assert found == hopped(changed)


def test_a_length_of_three_bytes_that_ends_in_zero_proves_nothing() -> None:
    """Read as two bytes it would lead to where the next record begins; read as it is, it does not."""
    record = bytes([0x8E, 0x80, 0x00, 0x00]) + b"x" * (8_201 - 4 - 1) + b"\0"  # 2 + 7 + (0x80 << 6) bytes
    payload = record + bytes([12, 0, 0, 2, 1, 1, 0])
    bounds = np.array([0]), np.array([len(payload)]), np.array([2])
    rest = np.array([0]), np.array([NOW]), np.array([NOW]), np.array([0])
    section = Section(payload, *bounds, *rest)
    with (
        mock.patch.object(spotting, "FEWEST_RECORDS", 1),
        mock.patch.object(spotting, "LONGEST_RECORD", 1 << 20),
    ):
        assert spotted(section) is None
    with pytest.raises(CorruptBatchError):
        hopped(section)
