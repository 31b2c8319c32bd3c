"""Zstandard frames, with and without their content size."""

import cramjam
import pytest

from kohort.records import zstd
from kohort.records.errors import CompressionError, OversizedPayloadError

LIMIT = 1 << 20
TEXT = b"consumer groups, " * 10_000
MAGIC = bytes.fromhex("28b52ffd")
NO_SIZES = b"\x00\x58"  # descriptor without content size; a window of 2 MiB


def streamed(content: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(content)
    return bytes(compressor.finish())


def block(kind: int, size: int, content: bytes, *, last: bool = False) -> bytes:
    return (last | kind << 1 | size << 3).to_bytes(3, "little") + content


def test_a_streamed_frame_without_content_size_is_read() -> None:
    assert zstd.decompress(streamed(TEXT), LIMIT) == TEXT


def test_several_frames_make_one_payload() -> None:
    skippable = bytes.fromhex("502a4d18 03000000 ffffff")
    frames = zstd.compress(b"one ") + skippable + streamed(b"two ") + zstd.compress(b"three")
    assert zstd.decompress(frames, LIMIT) == b"one two three"


def test_stored_and_repeated_blocks_are_read() -> None:
    frame = MAGIC + NO_SIZES + block(0, 3, b"abc") + block(1, 4, b"x") + block(0, 0, b"", last=True)
    assert zstd.decompress(frame, LIMIT) == b"abcxxxx"


def test_an_empty_frame_is_nothing() -> None:
    assert zstd.decompress(zstd.compress(b""), LIMIT) == b""


def test_blocks_that_grow_from_four_bytes_to_128_kib_meet_the_limit() -> None:
    bomb = MAGIC + NO_SIZES + block(1, 131_072, b"x") * 200 + block(0, 0, b"", last=True)
    assert len(zstd.decompress(bomb, 26_214_400)) == 26_214_400
    with pytest.raises(OversizedPayloadError, match=f"decompress to {LIMIT} bytes"):
        zstd.decompress(bomb, LIMIT)


def test_a_declared_content_size_reserves_nothing() -> None:
    liar = MAGIC + b"\xe0" + (1 << 40).to_bytes(8, "little") + block(0, 3, b"abc", last=True)
    with pytest.raises(CompressionError):
        zstd.decompress(liar, LIMIT)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x00", MAGIC, MAGIC + NO_SIZES, b"not a frame at all", zstd.compress(TEXT) + b"trailing bytes"],
)
def test_what_is_no_frame_is_refused(payload: bytes) -> None:
    with pytest.raises(CompressionError):
        zstd.decompress(payload, LIMIT)
