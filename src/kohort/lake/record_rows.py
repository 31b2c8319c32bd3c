"""One record of ``__consumer_offsets`` as a row: any type, any version, whatever its bytes are.

This is the slow and complete way; ``decode`` takes the plain commits, which are nearly all, in columns.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from struct import Struct as Layout
from typing import Any, Final, NamedTuple

from kohort.codec.schema import UUID, ZERO_UUID, Array, Field, Struct
from kohort.lake.columns import CONTROL, MALFORMED, UNKNOWN
from kohort.records.control import control_type
from kohort.records.errors import CorruptBatchError, MalformedRecordError, UnsupportedValueError
from kohort.records.group_records import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordKey,
    RecordValue,
)
from kohort.records.offsets_topic import VALUES, UnknownKey, decode_key, decode_value
from kohort.story.documents import assigned_partitions

_INT16 = Layout(">h")
_KEY_SUFFIX = "Key"
Row = dict[str, Any]


class RawRecord(NamedTuple):
    """A record as it stands in the log; ``producer_id`` is -1 outside of transactions."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    producer_id: int = -1


def kind_of(key: type[RecordKey]) -> str:
    """``ConsumerGroupMetadataKey`` is ``consumer_group_metadata``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", key.__name__.removesuffix(_KEY_SUFFIX)).lower()


KINDS: Final[Mapping[type[RecordKey], str]] = {key: kind_of(key) for key in VALUES}


def row_of(record: RawRecord) -> Row:
    """Never raises: a record that cannot be read is a row with its bytes and the problem."""
    row: Row = {"src_offset": record.offset, "ts": record.timestamp, "tombstone": record.value is None}
    if record.producer_id != -1:
        row["producer_id"] = record.producer_id
    try:
        key = decode_key(record.key)
    except MalformedRecordError as error:
        return row | {"kind": MALFORMED, "problem": str(error)} | _raw(record)
    row["record_type"] = _INT16.unpack_from(record.key or b"")[0]
    if isinstance(key, UnknownKey):
        problem = f"record type {key.record_type} is not known: a share or streams group, or a newer Kafka"
        return row | {"kind": UNKNOWN, "problem": problem} | _raw(record)
    row |= {"kind": KINDS[type(key)]} | _key_columns(key)
    if record.value is None:
        return row
    if len(record.value) >= _INT16.size:
        row["version"] = _INT16.unpack_from(record.value)[0]
    try:
        value = decode_value(VALUES[type(key)], record.value)
    except (MalformedRecordError, UnsupportedValueError) as error:
        return row | {"problem": str(error)} | _raw(record)
    return row | _value_columns(value)


def control_row(record: RawRecord) -> Row:
    """A marker that ends a transaction: ``details`` says COMMIT or ABORT."""
    row: Row = {
        "src_offset": record.offset,
        "ts": record.timestamp,
        "kind": CONTROL,
        "tombstone": False,
        "producer_id": record.producer_id,
    }
    try:
        kind = control_type(record.key)
    except CorruptBatchError as error:
        return row | {"problem": str(error)} | _raw(record)
    if kind is None:
        return row | {"problem": "a control record of an unknown type"} | _raw(record)
    return row | {"details": kind.name}


def _raw(record: RawRecord) -> Row:
    return {"key": record.key, "value": record.value}


def _key_columns(key: RecordKey) -> Row:
    if isinstance(key, OffsetCommitKey):
        return {"group_id": key.group, "topic": key.topic, "partition": key.partition}
    row: Row = {}
    for field in key.fields:
        name = field.name
        if name in ("group", "group_id"):
            row["group_id"] = getattr(key, name)
        elif name == "member_id":
            row["member_id"] = getattr(key, name)
        else:
            row["metadata"] = getattr(key, name)  # the expression of a resolved pattern
    return row


def _value_columns(value: RecordValue) -> Row:
    if isinstance(value, OffsetCommitValue):
        row: Row = {"committed": value.offset, "leader_epoch": value.leader_epoch, "metadata": value.metadata}
        if value.commit_timestamp != -1:
            row["commit_ts"] = value.commit_timestamp
        if value.expire_timestamp != -1:
            row["expire_ts"] = value.expire_timestamp
        if value.topic_id != ZERO_UUID:
            row["topic_id"] = uuid_text(value.topic_id)
        return row
    document = plain(value)
    if isinstance(value, GroupMetadataValue):
        for member, shown in zip(value.members, document["members"], strict=True):
            owned = assigned_partitions(b64encode(member.assignment).decode())
            shown["partitions"] = [[one.topic, one.partition] for one in sorted(owned)]
    return {"details": json.dumps(document, ensure_ascii=False, separators=(",", ":"))}


def uuid_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def plain(value: Struct) -> dict[str, Any]:
    """A struct as Kafka's own tools print it: names in camel case, bytes as base64, ids as Kafka's text."""
    return {_camel(field.name): _plain(field, getattr(value, field.name)) for field in value.fields}


def _plain(field: Field, value: object) -> object:
    if isinstance(value, Struct):
        return plain(value)
    if isinstance(value, bytes):
        of = field.type.of if isinstance(field.type, Array) else field.type
        return uuid_text(value) if of is UUID else b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [_plain(field, each) for each in value]
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
