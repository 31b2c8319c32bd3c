"""The value of a committed offset in ``__consumer_offsets``: written as 1, 3 or 4, read from 0 to 4."""

from struct import Struct
from typing import NamedTuple

from kohort.model.ids import NO_TOPIC_ID, TopicId
from kohort.primitives.varint import write_uvarint
from kohort.records.errors import MalformedRecordError, UnsupportedValueError
from kohort.records.fields import UNREADABLE, FieldReader, malformed, string_field

NEWEST_VERSION = 4
_WITH_EXPIRY, _WITH_EPOCH, _FLEXIBLE = 1, 3, 4
_NONE = -1

_TO_OFFSET = Struct(">hq")
_TO_EPOCH = Struct(">hqi")
_TIMESTAMP = Struct(">q")
_TWO_TIMESTAMPS = Struct(">qq")
_PLAIN_3 = Struct(">hqihq")  # version 3 with empty metadata: nearly every commit
_TOPIC_ID_TAG, _TOPIC_ID_SIZE = 0, 16


class OffsetValue(NamedTuple):
    """What a group has committed for a partition; -1 stands for "none", as in the record."""

    offset: int
    leader_epoch: int = _NONE
    metadata: str = ""
    commit_timestamp: int = _NONE
    expire_timestamp: int = _NONE
    topic_id: TopicId = NO_TOPIC_ID


def encode_offset_value(value: OffsetValue) -> bytes:
    """Version 1 with an expiry (it drops the leader epoch), 4 with a topic id, else 3, which all know."""
    offset, leader_epoch, metadata, committed, expires, topic_id = value
    if expires != _NONE:
        return (
            _TO_OFFSET.pack(_WITH_EXPIRY, offset)
            + string_field(metadata)
            + _TWO_TIMESTAMPS.pack(committed, expires)
        )
    if topic_id != NO_TOPIC_ID:
        return _encode_flexible(value)
    if not metadata:
        return _PLAIN_3.pack(_WITH_EPOCH, offset, leader_epoch, 0, committed)
    return (
        _TO_EPOCH.pack(_WITH_EPOCH, offset, leader_epoch)
        + string_field(metadata)
        + _TIMESTAMP.pack(committed)
    )


def _encode_flexible(value: OffsetValue) -> bytes:
    out = bytearray(_TO_EPOCH.pack(_FLEXIBLE, value.offset, value.leader_epoch))
    metadata = value.metadata.encode()
    write_uvarint(out, len(metadata) + 1)
    out += metadata
    out += _TIMESTAMP.pack(value.commit_timestamp)
    out += bytes((1, _TOPIC_ID_TAG, _TOPIC_ID_SIZE))
    out += value.topic_id
    return bytes(out)


def decode_offset_value(value: bytes) -> OffsetValue:
    """Raises ``MalformedRecordError``, or ``UnsupportedValueError`` for a version above 4."""
    if len(value) == _PLAIN_3.size:
        version, offset, epoch, metadata_length, committed = _PLAIN_3.unpack(value)
        if version == _WITH_EPOCH and metadata_length == 0:
            return OffsetValue(offset, epoch, "", committed)
    if len(value) < _TO_OFFSET.size:
        raise MalformedRecordError(f"an offset value of {len(value)} bytes is cut off")
    version, offset = _TO_OFFSET.unpack_from(value)
    if not 0 <= version <= NEWEST_VERSION:
        raise UnsupportedValueError(
            f"an offset value has version {version}, known are 0 to {NEWEST_VERSION}",
            hint="a newer broker wrote this log",
        )
    try:
        return _decode(value, version, offset)
    except UNREADABLE as error:
        raise malformed("an offset value", error) from error


def _decode(value: bytes, version: int, offset: int) -> OffsetValue:
    reader = FieldReader(value, _TO_OFFSET.size, flexible=version >= _FLEXIBLE)
    epoch = reader.int32() if version >= _WITH_EPOCH else _NONE
    metadata = reader.string()
    committed = reader.int64()
    expires = reader.int64() if version == _WITH_EXPIRY else _NONE
    topic_id = TopicId(reader.tags().get(_TOPIC_ID_TAG, NO_TOPIC_ID))
    if len(topic_id) != _TOPIC_ID_SIZE:
        raise MalformedRecordError(f"a topic id of {len(topic_id)} bytes")
    return OffsetValue(offset, epoch, metadata, committed, expires, topic_id)
