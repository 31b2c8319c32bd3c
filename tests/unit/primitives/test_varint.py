"""Variable-length integers."""

from collections.abc import Callable

import pytest

from kohort.model.errors import ProtocolError
from kohort.primitives.varint import (
    VarintError,
    VarintRangeError,
    read_uvarint,
    read_varint,
    read_varlong,
    write_uvarint,
    write_varint,
    write_varlong,
)

Read = Callable[[bytes, int], tuple[int, int]]
Write = Callable[[bytearray, int], None]

KINDS = [
    pytest.param(read_uvarint, write_uvarint, (0, (1 << 32) - 1), id="uvarint"),
    pytest.param(read_varint, write_varint, (-(1 << 31), (1 << 31) - 1), id="varint"),
    pytest.param(read_varlong, write_varlong, (-(1 << 63), (1 << 63) - 1), id="varlong"),
]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16_384, "808001"),
        (0xFFFFFFFF, "ffffffff0f"),
    ],
)
def test_unsigned_integers_have_seven_bits_a_byte(value: int, encoded: str) -> None:
    out = bytearray(b"x")
    write_uvarint(out, value)
    assert out == b"x" + bytes.fromhex(encoded)
    assert read_uvarint(out, 1) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-(1 << 31), "ffffffff0f")],
)
def test_signed_integers_are_folded_so_that_small_ones_stay_short(value: int, encoded: str) -> None:
    for read, write in ((read_varint, write_varint), (read_varlong, write_varlong)):
        out = bytearray()
        write(out, value)
        assert out == bytes.fromhex(encoded)
        assert read(out, 0) == (value, len(out))


def test_the_longest_integers_have_5_and_10_bytes() -> None:
    out = bytearray()
    write_varlong(out, -(1 << 63))
    assert out.hex() == "ffffffffffffffffff01"
    assert read_varlong(memoryview(out), 0) == (-(1 << 63), 10)


@pytest.mark.parametrize(("read", "write", "limits"), KINDS)
def test_limits_of_each_kind_come_back_and_what_lies_beyond_is_refused(
    read: Read, write: Write, limits: tuple[int, int]
) -> None:
    for limit, beyond in zip(limits, (limits[0] - 1, limits[1] + 1), strict=True):
        out = bytearray()
        write(out, limit)
        assert read(bytes(out), 0) == (limit, len(out))
        with pytest.raises(VarintRangeError, match=str(beyond)):
            write(bytearray(), beyond)


@pytest.mark.parametrize(("read", "write", "limits"), KINDS)
def test_an_integer_cut_off_anywhere_is_refused(read: Read, write: Write, limits: tuple[int, int]) -> None:
    out = bytearray()
    write(out, limits[1])
    for length in range(len(out)):
        with pytest.raises(VarintError, match="cut off"):
            read(bytes(out[:length]), 0)
    with pytest.raises(VarintError, match="cut off"):
        read(b"\x01", 1)


@pytest.mark.parametrize(
    ("read", "encoded"),
    [
        (read_uvarint, "808080808000"),
        (read_varint, "ffffffffff01"),
        (read_varlong, "8080808080808080808000"),
    ],
)
def test_an_integer_of_too_many_bytes_is_refused(read: Read, encoded: str) -> None:
    with pytest.raises(VarintError, match="takes more than"):
        read(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize(
    ("read", "encoded"), [(read_uvarint, "ffffffff1f"), (read_varlong, "ffffffffffffffffff03")]
)
def test_an_integer_of_too_many_bits_is_refused(read: Read, encoded: str) -> None:
    with pytest.raises(VarintError, match="has more than"):
        read(bytes.fromhex(encoded), 0)


def test_a_bad_integer_is_the_peers_fault() -> None:
    assert issubclass(VarintError, ProtocolError)


def test_more_bytes_than_needed_are_accepted() -> None:
    assert read_uvarint(b"\x81\x80\x00", 0) == (1, 3)
