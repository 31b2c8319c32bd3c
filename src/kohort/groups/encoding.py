"""Durable events as records of ``__consumer_offsets``, and back."""

from collections.abc import Iterable
from functools import lru_cache

from kohort.groups.consumer.encoding import encode_event
from kohort.groups.events import (
    DurableEvent,
    GroupImage,
    GroupStored,
    GroupTombstoned,
    MemberImage,
    OffsetsCommitted,
    OffsetsDeleted,
)
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, TopicName, WallTime
from kohort.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
)
from kohort.records.offsets_topic import decode_value, encode_commit, encode_key, encode_value

MAX_NAME_BYTES = 32_767  # a string in a record has an int16 length
_PARTITION_SIZE = 4
_SURELY_SHORT = MAX_NAME_BYTES // 3  # no UTF-16 unit takes more than three bytes


def is_storable(name: str) -> bool:
    """Whether a name fits into a record. Newer requests can carry longer ones."""
    return len(name) <= _SURELY_SHORT or len(name.encode()) <= MAX_NAME_BYTES


def encode(events: Iterable[DurableEvent]) -> tuple[tuple[bytes, bytes | None], ...]:
    """The records of the events, in order: keys with values, or with null for what is deleted."""
    records: list[tuple[bytes, bytes | None]] = []
    for event in events:
        match event:
            case OffsetsCommitted():
                records += _offset_records(event)
            case OffsetsDeleted(group_id, partitions):
                records += [
                    (
                        _key_beginning(group_id, topic)
                        + partition.to_bytes(_PARTITION_SIZE, "big", signed=True),
                        None,
                    )
                    for topic, partition in partitions
                ]
            case GroupStored(group_id, image):
                records.append((encode_key(GroupMetadataKey(group_id)), encode_value(_value(image))))
            case GroupTombstoned(group_id):
                records.append((encode_key(GroupMetadataKey(group_id)), None))
            case _:
                records.append(encode_event(event))
    return tuple(records)


def _offset_records(event: OffsetsCommitted) -> list[tuple[bytes, bytes]]:
    group_id = event.group_id
    return [
        (
            _key_beginning(group_id, topic) + partition.to_bytes(_PARTITION_SIZE, "big", signed=True),
            encode_commit(offset, epoch, metadata, committed, expires, topic_id),
        )
        for topic, partition, offset, epoch, metadata, committed, expires, topic_id in event.rows
    ]


@lru_cache(maxsize=10_000)  # a group commits the same topics again and again
def _key_beginning(group_id: GroupId, topic: TopicName) -> bytes:
    """What the keys of a group's offsets in one topic have in common: all but the last four bytes."""
    return encode_key(OffsetCommitKey(group_id, topic, 0))[:-_PARTITION_SIZE]


def decode_image(value: bytes) -> GroupImage:
    """The group a record stores. Raises what ``decode_value`` raises."""
    stored = decode_value(GroupMetadataValue, value)
    return GroupImage(
        protocol_type=stored.protocol_type,
        generation=Generation(stored.generation),
        protocol=stored.protocol,
        leader=None if stored.leader is None else MemberId(stored.leader),
        state_timestamp=WallTime(stored.current_state_timestamp),
        members=tuple(_member_image(member) for member in stored.members),
    )


def _value(image: GroupImage) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=image.protocol_type,
        generation=image.generation,
        protocol=image.protocol,
        leader=image.leader,
        current_state_timestamp=image.state_timestamp,
        members=[MemberMetadata(*member) for member in image.members],
    )


def _member_image(member: MemberMetadata) -> MemberImage:
    # Version 0 knew no rebalance timeout: the session timeout served for both.
    rebalance_timeout = member.rebalance_timeout if member.rebalance_timeout != -1 else member.session_timeout
    return MemberImage(
        member_id=MemberId(member.member_id),
        instance_id=None if member.group_instance_id is None else InstanceId(member.group_instance_id),
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=rebalance_timeout,
        session_timeout_ms=member.session_timeout,
        subscription=member.subscription,
        assignment=member.assignment,
    )
