"""Strings and byte fields of the records of ``__consumer_offsets``, in both of Kafka's notations.

Plain: a big-endian length in front, -1 for null. Compact (flexible versions): length + 1 as a uvarint, 0
for null, and tagged fields behind each structure.
"""

import struct

from kohort.primitives.varint import VarintError, read_uvarint
from kohort.records.errors import MalformedRecordError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_LONGEST = 0x7FFF

# What reading past the end, or something that is no text, raises: callers turn it into ``malformed``.
UNREADABLE = (struct.error, IndexError, UnicodeDecodeError, VarintError)


def malformed(what: str, error: Exception) -> MalformedRecordError:
    return MalformedRecordError(f"{what} is cut off or malformed: {error}")


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


class FieldReader:
    """Goes through one key or value. Raises ``MalformedRecordError`` or one of ``UNREADABLE``."""

    __slots__ = ("buffer", "flexible", "position")

    def __init__(self, buffer: bytes, position: int, *, flexible: bool = False) -> None:
        self.buffer = buffer
        self.position = position
        self.flexible = flexible

    def int32(self) -> int:
        start = self.position
        self.position = start + 4
        value: int = _INT32.unpack_from(self.buffer, start)[0]
        return value

    def int64(self) -> int:
        start = self.position
        self.position = start + 8
        value: int = _INT64.unpack_from(self.buffer, start)[0]
        return value

    def nullable_string(self) -> str | None:
        if self.flexible:
            return self._text(self._compact_length())
        start = self.position
        self.position = start + 2
        return self._text(_INT16.unpack_from(self.buffer, start)[0])

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedRecordError(f"the string before byte {self.position} is null")
        return text

    def content(self) -> bytes:
        """A field of bytes, not null."""
        return self._take(self._compact_length() if self.flexible else self.int32())

    def count(self, smallest: int) -> int:
        """The length of an array whose items take at least ``smallest`` bytes each."""
        count = self._compact_length() if self.flexible else self.int32()
        if not 0 <= count <= (len(self.buffer) - self.position) // smallest:
            raise MalformedRecordError(f"{count} items are declared, more than the bytes can hold")
        return count

    def tags(self) -> dict[int, bytes]:
        """The tagged fields behind a structure, known or not; none in plain notation."""
        if not self.flexible:
            return {}
        found: dict[int, bytes] = {}
        count, self.position = read_uvarint(self.buffer, self.position)
        for _ in range(count):
            tag, self.position = read_uvarint(self.buffer, self.position)
            size, self.position = read_uvarint(self.buffer, self.position)
            found[tag] = self._take(size)
        return found

    def _compact_length(self) -> int:
        length, self.position = read_uvarint(self.buffer, self.position)
        return length - 1

    def _text(self, length: int) -> str | None:
        return None if length == -1 else self._take(length).decode()

    def _take(self, length: int) -> bytes:
        start = self.position
        self.position = end = start + length
        if length < 0 or end > len(self.buffer):
            raise MalformedRecordError(f"a field of {length} bytes at byte {start} does not fit the record")
        return self.buffer[start:end]
