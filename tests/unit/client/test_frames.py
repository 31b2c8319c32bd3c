"""Replies cut out of a stream."""

import pytest

from kohort.client.connection import ReplyFrames
from kohort.model.errors import ProtocolError


def test_a_reply_comes_out_when_its_last_byte_is_there() -> None:
    frames = ReplyFrames()
    whole = b"\0\0\0\3abc\0\0\0\1d"
    seen = []
    for index in range(len(whole)):
        frames.feed(whole[index : index + 1])
        frame = frames.next_frame()
        if frame is not None:
            seen.append((index, frame))
    assert seen == [(6, b"abc"), (11, b"d")]


def test_several_replies_of_one_read_come_out_one_by_one() -> None:
    frames = ReplyFrames()
    frames.feed(b"\0\0\0\1a\0\0\0\0\0\0\0\1b")
    assert [frames.next_frame() for _ in range(4)] == [b"a", b"", b"b", None]


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
    frames = ReplyFrames()
    frames.feed(start)
    with pytest.raises(ProtocolError, match=message) as caught:
        frames.next_frame()
    assert hint in caught.value.hint
