"""The two indexes of a segment, in memory and as files."""

import pytest

from kohort.log.files.index import CorruptIndexError, OffsetIndex, TimeIndex


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex()
    for entry in entries:
        index.add(*entry)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex()
    for entry in entries:
        index.add(*entry)
    return index


def test_an_offset_is_looked_for_at_or_after_the_entry_before_it() -> None:
    index = offset_index((9, 4_100), (19, 8_200))
    assert [index.floor(offset) for offset in (0, 8, 9, 18, 19, 99)] == [0, 0, 4_100, 4_100, 8_200, 8_200]


def test_a_position_is_looked_for_in_the_same_way() -> None:
    index = offset_index((9, 4_100), (19, 8_200))
    assert [index.floor_of_position(position) for position in (0, 4_099, 4_100, 9_000)] == [
        0,
        0,
        4_100,
        8_200,
    ]
    assert index.last_position == 8_200
    assert offset_index().last_position == 0


def test_an_offset_index_is_eight_big_endian_bytes_an_entry() -> None:
    content = offset_index((9, 4_100), (19, 8_192)).encode()
    assert content == bytes.fromhex("00000009 00001004 00000013 00002000")
    restored = OffsetIndex.decode(content, 10_000)
    assert (restored.count, restored.floor(19)) == (2, 8_192)


def test_zeros_at_the_end_of_an_index_are_padding() -> None:
    content = offset_index((9, 4_100), (19, 8_192)).encode() + bytes(80)
    assert OffsetIndex.decode(content, 10_000).count == 2
    assert OffsetIndex.decode(bytes(80), 10_000).count == 0
    times = TimeIndex.decode(time_index((1_000, 3), (2_000, 9)).encode() + bytes(24))
    assert times.last == (2_000, 9)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"123",
        offset_index((9, 4_100), (9, 8_200)).encode(),
        offset_index((9, 4_100), (19, 4_000)).encode(),
        offset_index((9, 99_999)).encode(),
        offset_index((9, -4)).encode(),
    ],
)
def test_an_offset_index_that_cannot_be_right_is_recognised(content: bytes | None) -> None:
    with pytest.raises(CorruptIndexError):
        OffsetIndex.decode(content, 10_000)


@pytest.mark.parametrize("content", [None, b"123"])
def test_a_time_index_that_cannot_be_right_is_recognised(content: bytes | None) -> None:
    with pytest.raises(CorruptIndexError):
        TimeIndex.decode(content)


def test_a_time_index_takes_only_younger_entries() -> None:
    index = time_index((-1, 0), (1_000, 3), (1_000, 5), (900, 7), (1_001, 9))
    assert index.encode() == bytes.fromhex("00000000000003e8 00000003 00000000000003e9 00000009")


def test_what_is_older_than_a_time_ends_with_the_entry_before_it() -> None:
    index = time_index((1_000, 3), (2_000, 9))
    assert [index.floor(timestamp) for timestamp in (0, 1_000, 1_001, 2_000, 2_001)] == [-1, -1, 3, 3, 9]
    assert time_index().last == (-1, 0)
