"""Events of consumer groups as records of ``__consumer_offsets``, and back (modern-groups 15)."""

from collections.abc import Iterable
from typing import assert_never

from kohort.assign.server.group import TopicPartitions
from kohort.coordination.outcome import KeyValue
from kohort.groups.causes import Cause
from kohort.groups.commands import Protocol
from kohort.groups.consumer.assignment import CurrentAssignment, MemberState
from kohort.groups.consumer.events import (
    ClassicDetails,
    ConsumerGroupDropped,
    ConsumerGroupEvent,
    ConsumerGroupStored,
    ConsumerMemberDetails,
    ConsumerMemberDropped,
    ConsumerMemberStored,
    CurrentAssignmentDropped,
    CurrentAssignmentStored,
    ExpressionDropped,
    ExpressionStored,
    PartitionMetadataDropped,
    ResolvedExpression,
    TargetDropped,
    TargetEpochDropped,
    TargetEpochStored,
    TargetStored,
)
from kohort.model.ids import GroupId, InstanceId, MemberId, Partition, TopicId, TopicName, WallTime
from kohort.records import group_records as records
from kohort.records.group_records import RecordKey, RecordValue
from kohort.records.offsets_topic import decode_value, encode_key, encode_value

_STATES = frozenset(MemberState)


def encode_event(event: ConsumerGroupEvent) -> KeyValue:
    """The one record of an event."""
    key, value = _record(event)
    return encode_key(key), None if value is None else encode_value(value)


def _record(event: ConsumerGroupEvent) -> tuple[RecordKey, RecordValue | None]:  # noqa: C901  # one case each
    group_id = event.group_id
    match event:
        case CurrentAssignmentStored():
            return _current_key(event), _current_value(event.current)
        case CurrentAssignmentDropped():
            return _current_key(event), None
        case TargetStored():
            target = records.ConsumerGroupTargetAssignmentMemberValue(_partitions(event.partitions))
            return _target_key(event), target
        case TargetDropped():
            return _target_key(event), None
        case ConsumerMemberStored():
            return _member_key(event), _member_value(event.details)
        case ConsumerMemberDropped():
            return _member_key(event), None
        case ConsumerGroupStored():
            epoch = records.ConsumerGroupMetadataValue(event.epoch, event.metadata_hash)
            return records.ConsumerGroupMetadataKey(group_id), epoch
        case ConsumerGroupDropped():
            return records.ConsumerGroupMetadataKey(group_id), None
        case TargetEpochStored():
            key = records.ConsumerGroupTargetAssignmentMetadataKey(group_id)
            return key, records.ConsumerGroupTargetAssignmentMetadataValue(event.epoch)
        case TargetEpochDropped():
            return records.ConsumerGroupTargetAssignmentMetadataKey(group_id), None
        case ExpressionStored():
            topics, version, timestamp = event.resolved
            value = records.ConsumerGroupRegularExpressionValue(list(topics), version, timestamp)
            return records.ConsumerGroupRegularExpressionKey(group_id, event.expression), value
        case ExpressionDropped():
            return records.ConsumerGroupRegularExpressionKey(group_id, event.expression), None
        case PartitionMetadataDropped():
            return records.ConsumerGroupPartitionMetadataKey(group_id), None
        case _:
            assert_never(event)


def decode_event(key: RecordKey, value: bytes | None, cause: Cause) -> ConsumerGroupEvent | None:
    """The event that a record stores; ``None`` for records that are none of a consumer group, and for the
    topics that Kafka 4.0 and older stored. Raises what ``decode_value`` raises.
    """
    match key:
        case records.ConsumerGroupMetadataKey():
            return _group(GroupId(key.group_id), value, cause)
        case records.ConsumerGroupMemberMetadataKey():
            return _member(GroupId(key.group_id), MemberId(key.member_id), value, cause)
        case records.ConsumerGroupTargetAssignmentMetadataKey():
            return _target_epoch(GroupId(key.group_id), value, cause)
        case records.ConsumerGroupTargetAssignmentMemberKey():
            return _target(GroupId(key.group_id), MemberId(key.member_id), value, cause)
        case records.ConsumerGroupCurrentMemberAssignmentKey():
            return _current(GroupId(key.group_id), MemberId(key.member_id), value, cause)
        case records.ConsumerGroupRegularExpressionKey():
            return _expression(GroupId(key.group_id), key.regular_expression, value, cause)
        case records.ConsumerGroupPartitionMetadataKey() if value is None:
            return PartitionMetadataDropped(GroupId(key.group_id), cause)
        case _:
            return None


# --- out ----------------------------------------------------------------------------------------


def _current_key(event: CurrentAssignmentStored | CurrentAssignmentDropped) -> RecordKey:
    return records.ConsumerGroupCurrentMemberAssignmentKey(event.group_id, event.member_id)


def _target_key(event: TargetStored | TargetDropped) -> RecordKey:
    return records.ConsumerGroupTargetAssignmentMemberKey(event.group_id, event.member_id)


def _member_key(event: ConsumerMemberStored | ConsumerMemberDropped) -> RecordKey:
    return records.ConsumerGroupMemberMetadataKey(event.group_id, event.member_id)


def _current_value(current: CurrentAssignment) -> RecordValue:
    return records.ConsumerGroupCurrentMemberAssignmentValue(
        current.member_epoch,
        current.previous_epoch,
        current.state,
        _partitions(current.assigned),
        _partitions(current.pending_revocation),
    )


def _member_value(details: ConsumerMemberDetails) -> RecordValue:
    classic = details.classic
    return records.ConsumerGroupMemberMetadataValue(
        details.instance_id,
        details.rack_id,
        details.client_id,
        details.client_host,
        list(details.names),
        details.expression,
        details.rebalance_timeout_ms,
        details.server_assignor,
        None
        if classic is None
        else records.ClassicMemberMetadata(
            classic.session_timeout_ms, [records.ClassicProtocol(*each) for each in classic.protocols]
        ),
    )


def _partitions(partitions: TopicPartitions) -> list[records.AssignedPartitions]:
    return [records.AssignedPartitions(topic, sorted(partitions[topic])) for topic in sorted(partitions)]


# --- back ---------------------------------------------------------------------------------------


def _group(group_id: GroupId, value: bytes | None, cause: Cause) -> ConsumerGroupEvent:
    if value is None:
        return ConsumerGroupDropped(group_id, cause)
    stored = decode_value(records.ConsumerGroupMetadataValue, value)
    return ConsumerGroupStored(group_id, stored.epoch, stored.metadata_hash, cause)


def _member(group_id: GroupId, member_id: MemberId, value: bytes | None, cause: Cause) -> ConsumerGroupEvent:
    if value is None:
        return ConsumerMemberDropped(group_id, member_id, cause)
    stored = decode_value(records.ConsumerGroupMemberMetadataValue, value)
    classic = stored.classic_member_metadata
    details = ConsumerMemberDetails(
        None if stored.instance_id is None else InstanceId(stored.instance_id),
        stored.rack_id,
        stored.client_id,
        stored.client_host,
        tuple(sorted({TopicName(name) for name in stored.subscribed_topic_names})),
        stored.subscribed_topic_regex or "",
        stored.rebalance_timeout_ms,
        stored.server_assignor,
        None
        if classic is None
        else ClassicDetails(
            classic.session_timeout_ms,
            tuple(Protocol(each.name, bytes(each.metadata)) for each in classic.supported_protocols),
        ),
    )
    return ConsumerMemberStored(group_id, member_id, details, cause)


def _target_epoch(group_id: GroupId, value: bytes | None, cause: Cause) -> ConsumerGroupEvent:
    if value is None:
        return TargetEpochDropped(group_id, cause)
    stored = decode_value(records.ConsumerGroupTargetAssignmentMetadataValue, value)
    return TargetEpochStored(group_id, stored.assignment_epoch, cause)


def _target(group_id: GroupId, member_id: MemberId, value: bytes | None, cause: Cause) -> ConsumerGroupEvent:
    if value is None:
        return TargetDropped(group_id, member_id, cause)
    stored = decode_value(records.ConsumerGroupTargetAssignmentMemberValue, value)
    return TargetStored(group_id, member_id, _sets(stored.topic_partitions), cause)


def _current(group_id: GroupId, member_id: MemberId, value: bytes | None, cause: Cause) -> ConsumerGroupEvent:
    if value is None:
        return CurrentAssignmentDropped(group_id, member_id, cause)
    stored = decode_value(records.ConsumerGroupCurrentMemberAssignmentValue, value)
    current = CurrentAssignment(
        stored.member_epoch,
        stored.previous_member_epoch,
        MemberState(stored.state) if stored.state in _STATES else MemberState.UNKNOWN,
        _sets(stored.assigned_partitions),
        _sets(stored.partitions_pending_revocation),
    )
    return CurrentAssignmentStored(group_id, member_id, current, cause)


def _expression(group_id: GroupId, expression: str, value: bytes | None, cause: Cause) -> ConsumerGroupEvent:
    if value is None:
        return ExpressionDropped(group_id, expression, cause)
    stored = decode_value(records.ConsumerGroupRegularExpressionValue, value)
    topics = tuple(sorted(TopicName(name) for name in stored.topics))
    resolved = ResolvedExpression(topics, stored.version, WallTime(stored.timestamp))
    return ExpressionStored(group_id, expression, resolved, cause)


def _sets(stored: Iterable[records.AssignedPartitions]) -> TopicPartitions:
    return {
        TopicId(bytes(each.topic_id)): frozenset(map(Partition, each.partitions))
        for each in stored
        if each.partitions
    }
