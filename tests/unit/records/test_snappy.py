"""Snappy in the frames of the xerial library, and without."""

import cramjam
import pytest

from kohort.records import snappy
from kohort.records.errors import CompressionError, OversizedPayloadError

HEADER = bytes.fromhex("82534e4150505900 00000001 00000001")
LIMIT = 1 << 20


def raw(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content))


def block(content: bytes) -> bytes:
    squeezed = raw(content)
    return len(squeezed).to_bytes(4, "big") + squeezed


def test_blocks_of_32_kib_follow_the_header() -> None:
    content = bytes(range(256)) * 300
    assert snappy.compress(content) == HEADER + b"".join(
        block(content[start : start + 32_768]) for start in (0, 32_768, 65_536)
    )
    assert snappy.compress(b"") == HEADER


def test_a_bare_block_is_read() -> None:
    assert snappy.decompress(raw(b"consumer"), LIMIT) == b"consumer"


def test_a_header_in_the_place_of_a_length_is_skipped() -> None:
    framed = HEADER + block(b"one ") + HEADER + HEADER + block(b"two")
    assert snappy.decompress(framed, LIMIT) == b"one two"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        HEADER[:12],
        HEADER + b"\x00\x00\x00",
        HEADER + b"\xff\xff\xff\xff",
        HEADER + b"\x00\x00\x00\x05abc",
        HEADER + b"\x00\x00\x00\x00",
        HEADER + block(b"one") + HEADER[:9],
        b"\xff\xff\xff\xff\xff\xff",
    ],
)
def test_frames_that_do_not_add_up_are_refused(payload: bytes) -> None:
    with pytest.raises(CompressionError):
        snappy.decompress(payload, LIMIT)


def test_a_declared_length_is_held_against_the_limit_first() -> None:
    with pytest.raises(OversizedPayloadError, match="declares 4294967295 bytes"):
        snappy.decompress(b"\xff\xff\xff\xff\x0f", LIMIT)


def test_a_declared_length_that_the_bytes_cannot_hold_is_refused() -> None:
    with pytest.raises(CompressionError, match="5 bytes cannot hold the declared 1048575"):
        snappy.decompress(b"\xff\xff\x3f\x00\x00", LIMIT)


def test_the_limit_is_that_of_all_blocks_together() -> None:
    framed = snappy.compress(bytes(100_000))
    assert len(snappy.decompress(framed, 100_000)) == 100_000
    with pytest.raises(OversizedPayloadError):
        snappy.decompress(framed, 99_999)
