"""Structs that are declared with annotated attributes."""

import pytest

from kohort.codec.compiled import decode, encode
from kohort.codec.declare import declared, field
from kohort.codec.schema import ALWAYS, INT32, STRING, Array, Field, Message, Struct, Versions


@declared
class Point(Struct):
    """A part of a message."""

    x: int = field(INT32)
    label: str | None = field(STRING, nullable=ALWAYS, default=None)


@declared
class Line(Message):
    """Points in their order."""

    versions = Versions(0, 1)
    first_flexible = 1
    points: list[Point] = field(Array(Point))
    width: int = field(INT32, default=1, tag=0)


def test_a_declared_struct_has_the_fields_of_its_body_in_their_order() -> None:
    assert Point.fields == (
        Field("x", INT32),
        Field("label", STRING, nullable=ALWAYS, default=None),
    )
    assert Point.__slots__ == ("x", "label")
    assert Line.versions == Versions(0, 1)
    assert Line.__doc__ == "Points in their order."


def test_it_takes_its_fields_by_position_and_by_name_and_compares_by_them() -> None:
    assert Point(3) == Point(x=3, label=None)
    assert Point(3) != Point(4)
    assert repr(Point(3, "p")) == "Point(x=3, label='p')"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]  # that is what is tested


def test_it_is_written_and_read_like_a_generated_message() -> None:
    line = Line([Point(3), Point(4, "p")], width=2)
    encoded = encode(line, 1)
    assert encoded == bytes.fromhex("03 00000003 00 00 00000004 02 70 00 01 00 04 00000002")
    assert decode(Line, 1, encoded) == line
