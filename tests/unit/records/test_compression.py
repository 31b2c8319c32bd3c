"""Codecs, and the cap on what comes out of them."""

import gzip
import tracemalloc
import zlib

import pytest

from kohort.records.compression import Codec, compress, decompress, decompress_into
from kohort.records.errors import CompressionError, OversizedPayloadError

TEXT = b"consumer groups, " * 20_000
COMPRESSING = [codec for codec in Codec if codec]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("payload", [b"", b"x", bytes(range(256)), TEXT, bytes(300_000)])
def test_what_goes_in_comes_out(codec: Codec, payload: bytes) -> None:
    squeezed = compress(codec, payload)
    assert decompress(codec, squeezed) == payload
    assert decompress(codec, memoryview(squeezed)) == payload
    assert compress(codec, memoryview(payload)) == squeezed


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("payload", [b"", b"x", TEXT])
def test_it_comes_out_where_the_caller_wants_it(codec: Codec, payload: bytes) -> None:
    places: list[bytearray] = []

    def reserve(most: int) -> memoryview:
        places.append(bytearray(most))
        return memoryview(places[0])

    length = decompress_into(codec, memoryview(compress(codec, payload)), reserve)
    (place,) = places
    assert place[:length] == payload
    with pytest.raises(CompressionError):
        decompress_into(7, payload, reserve)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_text_gets_smaller(codec: Codec) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 10


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(codec: int) -> None:
    with pytest.raises(CompressionError, match=f"codec {codec} does not exist"):
        decompress(codec, b"")


@pytest.mark.parametrize("codec", Codec)
def test_output_may_reach_the_limit_and_not_pass_it(codec: Codec) -> None:
    squeezed = compress(codec, TEXT)
    assert len(decompress(codec, squeezed, len(TEXT))) == len(TEXT)
    with pytest.raises(OversizedPayloadError):
        decompress(codec, squeezed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_does_not_get_the_memory_it_asks_for(codec: Codec) -> None:
    bomb = compress(codec, bytes(32 << 20))
    limit = 1 << 20
    decompress(codec, compress(codec, b""))  # so that imports do not count
    tracemalloc.start()
    try:
        with pytest.raises(OversizedPayloadError):
            decompress(codec, bomb, limit)
        assert tracemalloc.get_traced_memory()[1] < 3 * limit + 2 * len(bomb)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_payload_cut_off_anywhere_is_refused(codec: Codec) -> None:
    squeezed = compress(codec, b"consumer groups, " * 20)
    for length in range(len(squeezed)):
        if codec is Codec.SNAPPY and length == 16:
            continue  # the header alone: no blocks, nothing in them
        with pytest.raises(CompressionError):
            decompress(codec, squeezed[:length])


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bytes_behind_the_end_are_refused(codec: Codec) -> None:
    with pytest.raises(CompressionError):
        decompress(codec, compress(codec, TEXT) + b"\x00\x00")


def test_several_gzip_members_make_one_payload() -> None:
    both = gzip.compress(b"first ") + gzip.compress(b"second")
    assert decompress(Codec.GZIP, both) == b"first second"
    with pytest.raises(OversizedPayloadError):
        decompress(Codec.GZIP, both, 11)


def test_gzip_is_readable_by_anyone_and_the_same_every_time() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert compress(Codec.GZIP, TEXT)[4:8] == bytes(4)


def test_many_small_gzip_members_cost_no_more_than_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    make = zlib.decompressobj

    class Counted:
        def __init__(self, wbits: int) -> None:
            self._real = make(wbits)

        def decompress(self, data: bytes, most: int) -> bytes:
            fed.append(len(data))
            return self._real.decompress(data, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    members = gzip.compress(b"") * 1_000 + gzip.compress(b"one") * 1_000 + gzip.compress(TEXT)
    assert decompress(Codec.GZIP, members) == b"one" * 1_000 + TEXT
    assert sum(fed) < 5 * len(members)
