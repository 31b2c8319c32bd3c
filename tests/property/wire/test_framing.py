"""However a stream of frames is cut and fed, the same frames come out; and noise does no harm."""

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rounds import ROUNDS

from kohort.model.errors import ProtocolError
from kohort.wire.framing import FrameBuffer
from kohort.wire.headers import read_request_header

SETTINGS = settings(max_examples=75 * ROUNDS, derandomize=True, database=None, deadline=None)

pytestmark = pytest.mark.slow

BODIES = st.lists(
    st.binary(max_size=30).map(lambda body: b"\0\x0c" + body) | st.binary(max_size=1), max_size=6
)


def drain(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (found := buffer.next_frame()) is not None:
        frames.append(found)
    return frames


@SETTINGS
@given(BODIES, st.lists(st.integers(0, 200)), st.booleans())
def test_frames_do_not_depend_on_how_the_stream_was_cut(
    bodies: list[bytes], cuts: list[int], at_once: bool
) -> None:
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    buffer = FrameBuffer()
    found = []
    for start, stop in pairwise(edges):
        buffer.feed(stream[start:stop])
        if not at_once:
            found += drain(buffer)
    found += drain(buffer)
    assert found == bodies
    assert buffer.buffered == 0


@SETTINGS
@given(st.lists(st.binary(max_size=20)))
def test_noise_ends_in_frames_or_a_protocol_error(pieces: list[bytes]) -> None:
    buffer = FrameBuffer()
    taken = 0
    with suppress(ProtocolError):
        for piece in pieces:
            buffer.feed(piece)
            taken += sum(4 + len(found) for found in drain(buffer))
        assert taken + buffer.buffered == sum(map(len, pieces))


@SETTINGS
@given(st.integers(0, 80), st.integers(-1, 20), st.binary(max_size=30))
def test_any_bytes_have_a_header_or_a_protocol_error(api: int, version: int, rest: bytes) -> None:
    frame = struct.pack(">hh", api, version) + rest
    with suppress(ProtocolError):
        header, position = read_request_header(frame)
        assert (header.api_key, header.api_version) == (api, version)
        assert 10 <= position <= len(frame)
