"""What the compiler of decoders makes of a declaration."""

import pytest

from kohort.codec.compiled import decode, encode
from kohort.codec.decoder import compile_decoder, decoder_source, skip_tags
from kohort.codec.errors import DecodeError
from kohort.codec.schema import BOOL, INT32, STRING, UUID, Array, Field, Message, Struct, Versions, since
from kohort.wire.messages.heartbeat import HeartbeatRequest


class Empty(Struct):
    """Nothing on the wire in versions that are not flexible."""

    __slots__ = ()


class Point(Struct):
    __slots__ = ("x", "y")
    fields = (Field("x", INT32), Field("y", INT32, versions=since(1), default=9))

    def __init__(self, *, x: int = 0, y: int = 9) -> None:
        self.x = x
        self.y = y


class Line(Struct):
    __slots__ = ("end",)
    fields = (Field("end", Point, nullable=since(2), default=None),)

    def __init__(self, *, end: Point | None = None) -> None:
        self.end = end


class Drawing(Message):
    """Shapes of declarations the protocol has not, or has rarely."""

    __slots__ = ("empties", "flags", "ids", "lines", "names", "origin")
    versions = Versions(0, 2)
    first_flexible = 2
    fields = (
        Field("origin", Point, versions=since(1)),
        Field("ids", Array(UUID)),
        Field("names", Array(STRING)),
        Field("flags", Array(BOOL)),
        Field("empties", Array(Empty)),
        Field("lines", Array(Line), versions=since(2), tag=3),
    )

    def __init__(
        self,
        *,
        origin: Point | None = None,
        ids: list[bytes] | None = None,
        names: list[str] | None = None,
        flags: list[bool] | None = None,
        empties: list[Empty] | None = None,
        lines: list[Line] | None = None,
    ) -> None:
        self.origin = origin or Point()
        self.ids = ids or []
        self.names = names or []
        self.flags = flags or []
        self.empties = empties or []
        self.lines = lines or []


def test_neighbours_of_fixed_width_and_the_next_length_are_read_at_once() -> None:
    source = decoder_source(HeartbeatRequest, 0)
    assert source.count("unpack_") == 2  # the length of the group id; the generation and the next length
    assert decoder_source(HeartbeatRequest, 4).count("unpack_") == 1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_arrays_of_every_kind_survive(version: int) -> None:
    drawing = Drawing(
        origin=Point(x=1, y=2) if version else None,
        ids=[bytes(range(16)), b"u" * 16],
        names=["a", "", "é"],
        flags=[True, False],
        empties=[Empty()] if version == 2 else [],
        lines=[Line(), Line(end=Point(x=3, y=4))] if version == 2 else [],
    )
    assert decode(Drawing, version, encode(drawing, version)) == drawing


def test_elements_without_bytes_are_bounded_by_the_bytes_that_are_left() -> None:
    with pytest.raises(DecodeError, match="empties: 2147483647 elements announced, 0 bytes left"):
        decode(Drawing, 0, bytes(12) + b"\x7f\xff\xff\xff")


def test_a_struct_the_version_lacks_reads_as_a_new_default() -> None:
    first, second = (decode(Drawing, 0, bytes(16)).origin for _ in range(2))
    assert first == second == Point()
    assert first is not second


def test_a_decoder_is_a_function_of_bytes_position_and_room() -> None:
    decoder = compile_decoder(Drawing, 0)
    assert decoder(b"header" + bytes(16), 6, 0) == Drawing()


@pytest.mark.parametrize("count", [0, 1, 200])
def test_skipping_tags_ends_behind_the_last(count: int) -> None:
    number = bytes([count]) if count < 128 else bytes([count & 0x7F | 0x80, count >> 7])
    data = number + b"\5\2ab" * count + b"rest"
    assert data[skip_tags(data, 1, data[0], "here") :] == b"rest"
