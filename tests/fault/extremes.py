"""Every field of a request at its extremes, made of the schemas: one change at a time, or several."""

import struct
from collections.abc import Callable
from typing import Any

from tests.fault.weird import places

from kohort.codec.schema import BOOL, BYTES, RECORDS, STRING, UUID, Array, Field, Message, Primitive

LONGEST = "x" * 32_767
TOO_LONG_FOR_A_RECORD = "x" * 32_768  # a compact string of a newer request has room for it
Change = tuple[int, object]  # the place of a field in its request, and its new value


def extremes(of: Primitive, topic_id: bytes) -> list[object]:
    if of is BOOL:
        return [False, True]
    if of is STRING:
        return ["", "x", "t", "-1", "1_0", "ü" * 16_383, "\0", "9" * 32_767, LONGEST, TOO_LONG_FOR_A_RECORD]
    if of is UUID:
        return [bytes(16), b"\xff" * 16, topic_id]
    if of is RECORDS:
        return [b"", b"\0", bytes(61), b"\xff" * 61]
    if of is BYTES:
        return [b"", b"\0", bytes(100_000)]
    most = 2 ** (8 * struct.calcsize(of.value) - 1) - 1
    return [-most - 1, -1, 0, 1, most]


def boundaries(field: Field, value: Any, version: int, topic_id: bytes) -> list[object]:  # noqa: ANN401 - any field
    of = field.type
    found: list[object] = [None] if field.nullable.includes(version) else []
    if isinstance(of, Array):
        found += [[], [*(value or []), *(value or [])]]
        if isinstance(of.of, Primitive):
            found += [[extreme] for extreme in extremes(of.of, topic_id)]
        else:
            found += [[of.of()], (value or [])[:1]]
    elif isinstance(of, Primitive):
        found += extremes(of, topic_id)
    return found


def changes(request: Message, version: int, topic_id: bytes) -> list[Change]:
    return [
        (place, value)
        for place, (holder, field) in enumerate(places(request, version))
        for value in boundaries(field, getattr(holder, field.name), version, topic_id)
    ]


def changed(make: Callable[[], Message], version: int, wanted: tuple[Change, ...]) -> Message:
    request = make()
    found = places(request, version)
    for place, value in wanted:
        holder, field = found[place]
        setattr(holder, field.name, value)
    if getattr(request, "max_wait_ms", 0) > 0:
        request.max_wait_ms = 1  # type: ignore[attr-defined] # a FetchRequest: the test would wait
    return request
