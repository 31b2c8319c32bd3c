"""The value of a classic group in ``__consumer_offsets``: written as 3, read from 0 to 4."""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from kohort.primitives.varint import read_uvarint
from kohort.records.errors import MalformedRecordError, UnsupportedValueError
from kohort.records.fields import (
    bytes_field,
    nullable_string_field,
    read_compact,
    read_plain_bytes,
    read_plain_text,
    read_tags,
    reading,
    string_field,
)

NEWEST_VERSION = 4
_WRITTEN = 3
_WITH_REBALANCE_TIMEOUT, _WITH_TIMESTAMP, _WITH_INSTANCE_ID, _FLEXIBLE = 1, 2, 3, 4
_NONE = -1

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_TIMEOUTS = Struct(">ii")
# Five empty strings or byte fields and a timeout: a member cannot take less.
_SMALLEST_MEMBER = 9


class GroupMemberValue(NamedTuple):
    """A member of a stable generation. A rebalance timeout of -1 (version 0) means "the session timeout"."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    subscription: bytes
    assignment: bytes


class GroupValue(NamedTuple):
    """A classic group as it was last stored. An empty protocol type means that there is none."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int = _NONE
    members: Sequence[GroupMemberValue] = ()


def encode_group_value(value: GroupValue) -> bytes:
    """Version 3. Raises ``MalformedRecordError`` for a string that is too long to be stored."""
    parts = [
        _INT16.pack(_WRITTEN),
        string_field(value.protocol_type),
        _INT32.pack(value.generation),
        nullable_string_field(value.protocol),
        nullable_string_field(value.leader),
        _INT64.pack(value.state_timestamp),
        _INT32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            string_field(member.member_id),
            nullable_string_field(member.instance_id),
            string_field(member.client_id),
            string_field(member.client_host),
            _TIMEOUTS.pack(member.rebalance_timeout, member.session_timeout),
            bytes_field(member.subscription),
            bytes_field(member.assignment),
        )
    return b"".join(parts)


def decode_group_value(value: bytes) -> GroupValue:
    """Raises ``MalformedRecordError``, or ``UnsupportedValueError`` for a version above 4."""
    with reading("a group value"):
        version = _INT16.unpack_from(value)[0]
        if not 0 <= version <= NEWEST_VERSION:
            raise UnsupportedValueError(
                f"a group value has version {version}, known are 0 to {NEWEST_VERSION}",
                hint="a newer broker wrote this log",
            )
        return _GroupReader(value, version).group()


class _GroupReader:
    """Goes through one value; the version decides the notation and which fields are there."""

    __slots__ = ("_flexible", "_position", "_value", "_version")

    def __init__(self, value: bytes, version: int) -> None:
        self._value = value
        self._version = version
        self._flexible = version >= _FLEXIBLE
        self._position = _INT16.size

    def group(self) -> GroupValue:
        protocol_type = self._string()
        generation = self._int32()
        protocol = self._nullable_string()
        leader = self._nullable_string()
        timestamp = _NONE
        if self._version >= _WITH_TIMESTAMP:
            timestamp = _INT64.unpack_from(self._value, self._position)[0]
            self._position += _INT64.size
        members = [self._member() for _ in range(self._member_count())]
        self._skip_tags()
        return GroupValue(protocol_type, generation, protocol, leader, timestamp, members)

    def _member(self) -> GroupMemberValue:
        member = GroupMemberValue(
            member_id=self._string(),
            instance_id=self._nullable_string() if self._version >= _WITH_INSTANCE_ID else None,
            client_id=self._string(),
            client_host=self._string(),
            rebalance_timeout=self._int32() if self._version >= _WITH_REBALANCE_TIMEOUT else _NONE,
            session_timeout=self._int32(),
            subscription=self._bytes(),
            assignment=self._bytes(),
        )
        self._skip_tags()
        return member

    def _member_count(self) -> int:
        if self._flexible:
            count, self._position = read_uvarint(self._value, self._position)
            count -= 1
        else:
            count = self._int32()
        if not 0 <= count <= (len(self._value) - self._position) // _SMALLEST_MEMBER:
            raise MalformedRecordError(f"a group value declares {count} members, more than it can hold")
        return count

    def _int32(self) -> int:
        value: int = _INT32.unpack_from(self._value, self._position)[0]
        self._position += _INT32.size
        return value

    def _nullable_string(self) -> str | None:
        read = read_compact if self._flexible else read_plain_text
        text, self._position = read(self._value, self._position)
        return None if text is None else text.decode()

    def _string(self) -> str:
        text = self._nullable_string()
        if text is None:
            raise MalformedRecordError(f"a string before byte {self._position} of a group value is null")
        return text

    def _bytes(self) -> bytes:
        read = read_compact if self._flexible else read_plain_bytes
        content, self._position = read(self._value, self._position)
        if content is None:
            raise MalformedRecordError(f"a byte field before byte {self._position} of a group value is null")
        return content

    def _skip_tags(self) -> None:
        if self._flexible:
            _, self._position = read_tags(self._value, self._position)
