"""The documents of the journal, read back: the other direction of ``docs/reference/journal.md``."""

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from kohort.codec.compiled import DecodeError, decode
from kohort.codec.schema import Message
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.wire.messages.consumer_protocol import TopicPartition as TopicOfMember

SCHEMA_VERSION = 1
GAP = "JournalGap"

M = TypeVar("M", bound=Message)

_VERSION = Struct(">h")


class Document(NamedTuple):
    """One event as the journal has it."""

    at: int
    event: str
    details: Mapping[str, Any]
    cause: Mapping[str, Any]
    topics: Mapping[str, str] = {}  # names of topics by the ids in the details


def read_document(value: bytes | None) -> Document | None:
    """The event in a record of the journal; ``None`` for another record, or one of a later schema."""
    try:
        found = json.loads(value or b"")
        if found["schema"] != SCHEMA_VERSION:
            return None
        return Document(
            at=int(found["at"]),
            event=str(found["event"]),
            details=found["details"],
            cause=found.get("cause", {}),
            topics=dict(found.get("topics", {})),
        )
    except (ValueError, KeyError, TypeError):
        return None


def assigned_partitions(blob: str) -> frozenset[TopicPartition]:
    """The partitions in a consumer's assignment, from base64; none if it is empty or not a consumer's."""
    found = _decode(ConsumerProtocolAssignment, blob)
    return frozenset() if found is None else _partitions(found.assigned_partitions)


def owned_partitions(metadata: str) -> frozenset[TopicPartition]:
    """The partitions a consumer says it still has when it joins: eager ones say none."""
    found = _decode(ConsumerProtocolSubscription, metadata)
    return frozenset() if found is None else _partitions(found.owned_partitions)


def _decode(message: type[M], text: str) -> M | None:
    try:
        blob = b64decode(text)
    except binascii.Error:
        return None
    if len(blob) < _VERSION.size:
        return None
    try:
        return decode(message, min(_VERSION.unpack_from(blob)[0], message.versions.last), blob, _VERSION.size)
    except DecodeError:
        return None


def _partitions(topics: Iterable[TopicOfMember]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(TopicName(topic.topic), Partition(number))
        for topic in topics
        for number in topic.partitions
    )
