"""Cutting a stream into frames: any cuts, many frames at once, and what must be refused early."""

import struct
import tracemalloc

import pytest

from kohort.model.errors import ProtocolError
from kohort.wire.apis import ApiKey
from kohort.wire.framing import DEFAULT_LIMIT, FrameBuffer, frame

MIB = 1024 * 1024
LIMITS: dict[int, int] = {ApiKey.PRODUCE: 100 * MIB, ApiKey.HEARTBEAT: 65_536}


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def announced(size: int, api: int) -> bytes:
    return struct.pack(">ih", size, api)


def drain(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (found := buffer.next_frame()) is not None:
        frames.append(found)
    return frames


@pytest.mark.parametrize("piece", [1, 100])
@pytest.mark.parametrize("body", [b"", b"x"])
def test_a_frame_too_short_for_an_api_key_is_passed_on(body: bytes, piece: int) -> None:
    buffer = FrameBuffer()
    stream = framed(body) + framed(b"\0\x0cab")
    found = []
    for start in range(0, len(stream), piece):
        buffer.feed(stream[start : start + piece])
        found += drain(buffer)
    assert found == [body, b"\0\x0cab"]


@pytest.mark.parametrize("piece", [1, 100])
def test_a_request_too_large_for_its_api_is_refused_after_six_bytes(piece: int) -> None:
    start = announced(65_537, ApiKey.HEARTBEAT)
    buffer = FrameBuffer(LIMITS)
    for position in range(0, len(start), piece):
        buffer.feed(start[position : position + piece])
        if position + piece < len(start):
            assert buffer.next_frame() is None
    with pytest.raises(ProtocolError, match=r"a request of 65,537 bytes for Heartbeat; 65,536 are allowed"):
        buffer.next_frame()
    with pytest.raises(ProtocolError):
        buffer.next_frame()


def test_a_request_as_large_as_allowed_is_waited_for() -> None:
    for api in ApiKey:
        limit = LIMITS.get(api, DEFAULT_LIMIT)
        buffer = FrameBuffer(LIMITS)
        buffer.feed(announced(limit, api))
        assert buffer.next_frame() is None
        buffer = FrameBuffer(LIMITS)
        buffer.feed(announced(limit + 1, api))
        with pytest.raises(ProtocolError, match="are allowed"):
            buffer.next_frame()


def test_an_unknown_api_has_the_default_limit() -> None:
    buffer = FrameBuffer(LIMITS)
    buffer.feed(announced(DEFAULT_LIMIT + 1, 999))
    with pytest.raises(ProtocolError, match="for the unknown API 999"):
        buffer.next_frame()


def test_replies_have_one_limit_whatever_their_first_bytes() -> None:
    buffer = FrameBuffer.for_replies(max_size=MIB)
    body = struct.pack(">i", ApiKey.HEARTBEAT << 16) + bytes(MIB - 4)
    buffer.feed(framed(body))
    assert buffer.next_frame() == body
    buffer.feed(struct.pack(">i", MIB + 1))
    with pytest.raises(ProtocolError, match="1,048,577 bytes; 1,048,576 are allowed"):
        buffer.next_frame()


def test_an_announced_frame_reserves_nothing_before_it_arrives() -> None:
    tracemalloc.start()
    try:
        buffers = [FrameBuffer(LIMITS) for _ in range(10)]
        for buffer in buffers:
            buffer.feed(announced(LIMITS[ApiKey.PRODUCE], ApiKey.PRODUCE))
            assert buffer.next_frame() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


def test_a_large_frame_in_small_pieces_is_put_together_once() -> None:
    body = struct.pack(">h", ApiKey.PRODUCE) + bytes(4 * MIB)
    stream = memoryview(framed(body))
    buffer = FrameBuffer(LIMITS)
    found = None
    for start in range(0, len(stream), 1000):
        assert found is None
        buffer.feed(bytes(stream[start : start + 1000]))
        found = buffer.next_frame()
    assert found == body
    assert buffer.buffered == 0


@pytest.mark.parametrize("piece", [1, 2, 100])
def test_tiny_pieces_take_no_more_memory_than_a_few_times_their_bytes(piece: int) -> None:
    size = 64 * 1024
    frames = FrameBuffer.for_replies()
    frames.feed((size + 1).to_bytes(4, "big") + bytes(2))
    assert frames.next_frame() is None
    tracemalloc.start()
    try:
        for _ in range((size - 2) // piece):
            frames.feed(bytes(piece))
            assert frames.next_frame() is None
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4 * size


def test_a_frame_is_its_parts_behind_their_common_size() -> None:
    assert b"".join(frame([b"head", memoryview(b"body")])) == b"\0\0\0\x08headbody"


def test_frames_keep_their_order_when_one_is_fed_between_two_cuts() -> None:
    """The first chunk is used up to its end, the second waits, the third must not overtake it."""
    whole = [b"\0\0\0\4" + bytes([0, 18, 0, number]) for number in range(4)]
    buffer = FrameBuffer()
    buffer.feed(whole[0] + whole[1])
    cut = [buffer.next_frame()]
    buffer.feed(whole[2])
    cut.append(buffer.next_frame())
    buffer.feed(whole[3])
    cut += [buffer.next_frame(), buffer.next_frame(), buffer.next_frame()]
    assert cut == [*(each[4:] for each in whole), None]


@pytest.mark.parametrize(
    ("start", "message", "hint"),
    [
        (b"HTTP/1.1 400", "speaks HTTP", "web server"),
        (b"\x15\x03\x01\x00", "TLS alert", "TLS listener"),
        (b"\xff\xff\xff\xfe", "-2 bytes", "Kafka broker"),
        (b"SSH-2.0-", "bytes", "Kafka broker"),
    ],
)
def test_a_peer_that_is_no_broker_is_recognised(start: bytes, message: str, hint: str) -> None:
    frames = FrameBuffer.for_replies()
    frames.feed(start)
    with pytest.raises(ProtocolError, match=message) as caught:
        frames.next_frame()
    assert hint in caught.value.hint
