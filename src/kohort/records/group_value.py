"""The value of a classic group in ``__consumer_offsets``: written as 3, read from 0 to 4."""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from kohort.records.errors import UnsupportedValueError
from kohort.records.fields import (
    UNREADABLE,
    FieldReader,
    bytes_field,
    malformed,
    nullable_string_field,
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
    try:
        version = _INT16.unpack_from(value)[0]
        if not 0 <= version <= NEWEST_VERSION:
            raise UnsupportedValueError(
                f"a group value has version {version}, known are 0 to {NEWEST_VERSION}",
                hint="a newer broker wrote this log",
            )
        return _group(FieldReader(value, _INT16.size, flexible=version >= _FLEXIBLE), version)
    except UNREADABLE as error:
        raise malformed("a group value", error) from error


def _group(reader: FieldReader, version: int) -> GroupValue:
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    timestamp = reader.int64() if version >= _WITH_TIMESTAMP else _NONE
    members = [_member(reader, version) for _ in range(reader.count(_SMALLEST_MEMBER))]
    reader.tags()
    return GroupValue(protocol_type, generation, protocol, leader, timestamp, members)


def _member(reader: FieldReader, version: int) -> GroupMemberValue:
    member = GroupMemberValue(
        member_id=reader.string(),
        instance_id=reader.nullable_string() if version >= _WITH_INSTANCE_ID else None,
        client_id=reader.string(),
        client_host=reader.string(),
        rebalance_timeout=reader.int32() if version >= _WITH_REBALANCE_TIMEOUT else _NONE,
        session_timeout=reader.int32(),
        subscription=reader.content(),
        assignment=reader.content(),
    )
    reader.tags()
    return member
