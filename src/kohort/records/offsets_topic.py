"""The records of ``__consumer_offsets``: keys, committed offsets, classic groups.

A key starts with a record type, a value with its own version; a null value is a tombstone. Types this
module does not read come back as ``OtherKey`` and are skipped. Written are the versions that every Kafka
since 2.3 reads; read are all that Kafka 4 reads.
"""

from struct import Struct
from typing import NamedTuple

from kohort.records.errors import MalformedRecordError, UnsupportedValueError
from kohort.records.fields import UNREADABLE, FieldReader, malformed, string_field
from kohort.records.group_value import GroupMemberValue, GroupValue, decode_group_value, encode_group_value
from kohort.records.offset_value import OffsetValue, decode_offset_value, encode_offset_value

__all__ = [
    "GroupKey",
    "GroupMemberValue",
    "GroupValue",
    "Key",
    "MalformedRecordError",
    "OffsetKey",
    "OffsetValue",
    "OtherKey",
    "UnsupportedValueError",
    "decode_group_value",
    "decode_key",
    "decode_offset_value",
    "encode_group_value",
    "encode_key",
    "encode_offset_value",
    "read_names",
]

_LEGACY_OFFSET, _OFFSET, _GROUP = 0, 1, 2
_TYPE = Struct(">h")
_PARTITION = Struct(">i")
_OFFSET_TYPE = _TYPE.pack(_OFFSET)
_GROUP_TYPE = _TYPE.pack(_GROUP)
_OFFSET_TYPES = (_OFFSET_TYPE, _TYPE.pack(_LEGACY_OFFSET))


class OffsetKey(NamedTuple):
    """Names the committed offset of one partition in one group."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Names a classic group."""

    group: str


class OtherKey(NamedTuple):
    """A record type that is not read here: a KIP-848, share or streams group, or something newer."""

    type: int


Key = OffsetKey | GroupKey | OtherKey


def encode_key(key: OffsetKey | GroupKey) -> bytes:
    """Raises ``MalformedRecordError`` for a name of more than 32,767 bytes."""
    if isinstance(key, OffsetKey):
        return (
            _OFFSET_TYPE + string_field(key.group) + string_field(key.topic) + _PARTITION.pack(key.partition)
        )
    return _GROUP_TYPE + string_field(key.group)


def decode_key(key: bytes | None) -> Key:
    """Raises ``MalformedRecordError`` for a key that is null, has no type, or is cut off."""
    if key is None or len(key) < _TYPE.size:
        raise MalformedRecordError("a record has no key, or one of less than 2 bytes")
    kind = _TYPE.unpack_from(key)[0]
    if kind not in (_LEGACY_OFFSET, _OFFSET, _GROUP):
        return OtherKey(kind)
    reader = FieldReader(key, _TYPE.size)
    try:
        if kind == _GROUP:
            return GroupKey(reader.string())
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    except UNREADABLE as error:
        raise malformed("the key of a record", error) from error


def read_names(beginning: bytes) -> tuple[str, str] | None:
    """Group and topic of an offset key of which the last four bytes, its partition, were cut off.

    ``None`` for what is not exactly that; ``decode_key`` may still know the whole key.
    """
    if beginning[:2] not in _OFFSET_TYPES:
        return None
    middle = 4 + int.from_bytes(beginning[2:4], "big")
    if len(beginning) != middle + 2 + int.from_bytes(beginning[middle : middle + 2], "big"):
        return None
    try:
        return beginning[4:middle].decode(), beginning[middle + 2 :].decode()
    except UnicodeDecodeError:
        return None
