"""Bytes to the records of ``__consumer_offsets`` and back; ``group_records`` declares the records.

Written are the versions that every Kafka since 2.3 reads; read are all that Kafka 4 reads. A key of a type
that is not declared is an ``UnknownKey``.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from kohort.codec.compiled import DecodeError, EncodeError, decode_request, encode
from kohort.codec.schema import Message
from kohort.model.ids import NO_TOPIC_ID, TopicId
from kohort.records import group_records as records
from kohort.records.errors import MalformedRecordError, UnsupportedValueError
from kohort.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordKey,
    RecordValue,
)

V = TypeVar("V", bound=RecordValue)
K = TypeVar("K", bound=Message)

VALUES: Final[Mapping[type[RecordKey], type[RecordValue]]] = {
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
    records.ConsumerGroupMetadataKey: records.ConsumerGroupMetadataValue,
    records.ConsumerGroupPartitionMetadataKey: records.ConsumerGroupPartitionMetadataValue,
    records.ConsumerGroupMemberMetadataKey: records.ConsumerGroupMemberMetadataValue,
    records.ConsumerGroupTargetAssignmentMetadataKey: records.ConsumerGroupTargetAssignmentMetadataValue,
    records.ConsumerGroupTargetAssignmentMemberKey: records.ConsumerGroupTargetAssignmentMemberValue,
    records.ConsumerGroupCurrentMemberAssignmentKey: records.ConsumerGroupCurrentMemberAssignmentValue,
    records.ConsumerGroupRegularExpressionKey: records.ConsumerGroupRegularExpressionValue,
}
"""The value that each kind of key has."""

_LEGACY_OFFSET_TYPE = 0
_KEYS: Final = {key.record_type: key for key in VALUES} | {_LEGACY_OFFSET_TYPE: OffsetCommitKey}
_INT16 = Struct(">h")
_OFFSET_TYPES = (_INT16.pack(OffsetCommitKey.record_type), _INT16.pack(_LEGACY_OFFSET_TYPE))

# The newest version that Kafka 2.3 reads, for values that have several.
_WRITTEN_GROUP = 3
_WITH_EXPIRY, _WITH_EPOCH, _WITH_TOPIC_ID = 1, 3, 4
_PLAIN_COMMIT = Struct(">hqihq")  # version 3 with empty metadata: nearly every commit
_NONE = -1


class UnknownKey(NamedTuple):
    """A record type that is not declared here: a share or streams group, or something newer."""

    record_type: int


def encode_key(key: RecordKey) -> bytes:
    """Raises ``MalformedRecordError`` for a name of more than 32,767 bytes."""
    return _INT16.pack(key.record_type) + _encode(key, 0)


def decode_key(key: bytes | None) -> RecordKey | UnknownKey:
    """Raises ``MalformedRecordError`` for a key that is null, has no type, or is cut off."""
    if key is None or len(key) < _INT16.size:
        raise MalformedRecordError("a record has no key, or one of less than 2 bytes")
    record_type: int = _INT16.unpack_from(key)[0]
    declared = _KEYS.get(record_type)
    return UnknownKey(record_type) if declared is None else _decode(declared, 0, key)


def group_named(key: bytes | None) -> str | None:
    """The group that a key is about, which is the first thing every declared key names; else ``None``."""
    try:
        decoded = decode_key(key)
    except MalformedRecordError:
        return None
    return None if isinstance(decoded, UnknownKey) else getattr(decoded, decoded.fields[0].name)


def encode_value(value: RecordValue) -> bytes:
    """A value in the version that is written. Raises ``MalformedRecordError`` for what cannot be stored."""
    version = 0
    if isinstance(value, OffsetCommitValue):
        return encode_commit(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            TopicId(value.topic_id),
        )
    if isinstance(value, GroupMetadataValue):
        version = _WRITTEN_GROUP
    return _INT16.pack(version) + _encode(value, version)


def decode_value(declared: type[V], value: bytes) -> V:
    """Raises ``MalformedRecordError``, or ``UnsupportedValueError`` for a version that is not known."""
    if len(value) < _INT16.size:
        raise MalformedRecordError(f"a {declared.__name__} of {len(value)} bytes has no version")
    version: int = _INT16.unpack_from(value)[0]
    if not declared.versions.includes(version):
        raise UnsupportedValueError(
            f"a {declared.__name__} has version {version}, known are {declared.versions}",
            hint="a newer broker wrote this log",
        )
    return _decode(declared, version, value)


def encode_commit(  # noqa: PLR0913  # the hottest record: no object is made for it
    offset: int, leader_epoch: int, metadata: str, committed: int, expires: int, topic_id: TopicId
) -> bytes:
    """Version 1 with an expiry (it drops the leader epoch), 4 with a topic id, else 3, which all know."""
    if expires == _NONE and not metadata and topic_id == NO_TOPIC_ID:
        return _PLAIN_COMMIT.pack(_WITH_EPOCH, offset, leader_epoch, 0, committed)
    version = _WITH_EXPIRY if expires != _NONE else _WITH_EPOCH if topic_id == NO_TOPIC_ID else _WITH_TOPIC_ID
    value = OffsetCommitValue(offset, leader_epoch, metadata, committed, expires, topic_id)
    return _INT16.pack(version) + _encode(value, version)


def decode_commit(value: bytes) -> OffsetCommitValue:
    """A committed offset, as ``decode_value``."""
    if len(value) == _PLAIN_COMMIT.size:
        version, offset, epoch, metadata_length, committed = _PLAIN_COMMIT.unpack(value)
        if version == _WITH_EPOCH and metadata_length == 0:
            return OffsetCommitValue(offset, epoch, "", committed)
    return decode_value(OffsetCommitValue, value)


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


def _encode(message: Message, version: int) -> bytes:
    try:
        return encode(message, version)
    except EncodeError as error:
        raise MalformedRecordError(f"a record cannot be stored: {error}") from error


def _decode(message: type[K], version: int, data: bytes) -> K:
    try:
        return decode_request(message, version, data, _INT16.size)
    except DecodeError as error:
        raise MalformedRecordError(f"a record is cut off or malformed: {error}") from error
