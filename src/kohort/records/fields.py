"""Strings and byte fields of the records of ``__consumer_offsets``, in both of Kafka's notations.

Plain: a big-endian length in front, -1 for null. Compact (flexible versions): length + 1 as a uvarint, 0
for null, and tagged fields behind each structure. Readers take a buffer and a position and return the value
and the position behind it; what they raise, ``reading`` turns into ``MalformedRecordError``.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from kohort.primitives.varint import VarintError, read_uvarint
from kohort.records.errors import MalformedRecordError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_LONGEST = 0x7FFF


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever goes wrong while ``what`` is read into ``MalformedRecordError``."""
    try:
        yield
    except (struct.error, IndexError, UnicodeDecodeError, VarintError) as error:
        raise MalformedRecordError(f"{what} is cut off or malformed: {error}") from error


def string_field(text: str) -> bytes:
    """A string in plain notation; raises ``MalformedRecordError`` for one of more than 32,767 bytes."""
    encoded = text.encode()
    if len(encoded) > _LONGEST:
        raise MalformedRecordError(
            f"{text[:40]!r}… has {len(encoded)} bytes, a stored string at most {_LONGEST}"
        )
    return _INT16.pack(len(encoded)) + encoded


def nullable_string_field(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string_field(text)


def bytes_field(content: bytes) -> bytes:
    return _INT32.pack(len(content)) + content


def read_plain_text(buffer: bytes, position: int) -> tuple[bytes | None, int]:
    """The UTF-8 of a string in plain notation."""
    return _take(buffer, position + 2, _INT16.unpack_from(buffer, position)[0])


def read_plain_bytes(buffer: bytes, position: int) -> tuple[bytes | None, int]:
    return _take(buffer, position + 4, _INT32.unpack_from(buffer, position)[0])


def read_compact(buffer: bytes, position: int) -> tuple[bytes | None, int]:
    """A compact string, as UTF-8, or compact bytes."""
    length, position = read_uvarint(buffer, position)
    return _take(buffer, position, length - 1)


def _take(buffer: bytes, position: int, length: int) -> tuple[bytes | None, int]:
    if length < 0:
        if length == -1:
            return None, position
        raise MalformedRecordError(f"the length before byte {position} is {length}")
    end = position + length
    if end > len(buffer):
        raise MalformedRecordError(f"a field of {length} bytes at byte {position} is cut off")
    return buffer[position:end], end


def read_tags(buffer: bytes, position: int) -> tuple[dict[int, bytes], int]:
    """The tagged fields behind a structure, known or not."""
    count, position = read_uvarint(buffer, position)
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        content, position = _take(buffer, position, size)
        tags[tag] = content or b""
    return tags, position
