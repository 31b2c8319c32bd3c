"""LZ4 frames: ours are Kafka's, and others are read whatever checksums they have."""

import cramjam
import pytest

from kohort.records import lz4
from kohort.records.errors import CompressionError, OversizedPayloadError

LIMIT = 1 << 20
TEXT = b"consumer groups, " * 10


def framed(content: bytes, **options: bool) -> bytes:
    compressor = cramjam.lz4.Compressor(**options)
    compressor.compress(content)
    return bytes(compressor.finish())


def test_a_frame_starts_like_kafkas_own() -> None:
    frame = lz4.compress(TEXT)
    assert frame[:7].hex() == "04224d18604082"  # independent blocks of 64 KiB, no checksums, no sizes
    assert frame[-4:] == bytes(4)
    assert bytes(cramjam.lz4.decompress(frame)) == TEXT


def test_nothing_is_a_header_and_an_end() -> None:
    assert lz4.compress(b"").hex() == "04224d1860408200000000"
    assert lz4.decompress(lz4.compress(b""), LIMIT) == b""


def test_a_block_that_does_not_shrink_is_stored() -> None:
    content = bytes(range(256))
    frame = lz4.compress(content)
    assert frame[7:11] == (len(content) | 0x80000000).to_bytes(4, "little")
    assert lz4.decompress(frame, LIMIT) == content


def test_several_blocks_are_read() -> None:
    content = bytes(range(256)) * 1000
    assert lz4.decompress(lz4.compress(content), LIMIT) == content


@pytest.mark.parametrize("checksum", [False, True])
def test_frames_with_checksums_are_read_and_checked(checksum: bool) -> None:
    frame = framed(TEXT, block_linked=False, content_checksum=checksum)
    assert frame[4] & 0x30 == 0x30  # blocks are independent, each with a checksum
    assert lz4.decompress(frame, LIMIT) == TEXT
    for place in range(11, len(frame) - 4):
        broken = bytearray(frame)
        broken[place] ^= 0x04
        with pytest.raises(CompressionError):
            lz4.decompress(broken, LIMIT)


def test_a_frame_with_its_content_size_is_read() -> None:
    frame = bytes.fromhex("04224d18 68 40 0300000000000000 87 03000080 616263 00000000")
    assert lz4.decompress(frame, LIMIT) == b"abc"


def test_blocks_that_depend_on_each_other_are_refused_as_kafka_refuses_them() -> None:
    with pytest.raises(CompressionError, match="depend on each other"):
        lz4.decompress(framed(TEXT, block_linked=True), LIMIT)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ("", "not an lz4 frame"),
        ("04224d19604082 00000000", "not an lz4 frame"),
        ("04224d18204082 00000000", "unknown frame version"),
        ("04224d18603082 00000000", "block size"),
        ("04224d18604083 00000000", "lz4"),
        ("04224d18604082 ffffffff 00000000", "cut off"),
        ("04224d18604082 000000", "cut off"),
        ("04224d18604082 00000000 00", "ends at byte 11 of 12"),
    ],
)
def test_frames_that_do_not_add_up_are_refused(frame: str, text: str) -> None:
    with pytest.raises(CompressionError, match=text):
        lz4.decompress(bytes.fromhex(frame), LIMIT)


def test_a_frame_of_large_blocks_is_held_against_the_limit() -> None:
    frame = framed(bytes(1 << 22), block_linked=False, content_checksum=False)
    assert len(lz4.decompress(frame, 1 << 22)) == 1 << 22
    with pytest.raises(OversizedPayloadError):
        lz4.decompress(frame, (1 << 22) - 1)
