"""How each event changes a consumer group, live and from the log. Nothing is decided here."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kohort.assign.server.group import TopicPartitions
from kohort.groups.consumer.assignment import CurrentAssignment, each_partition
from kohort.groups.consumer.events import (
    ConsumerGroupDropped,
    ConsumerGroupLoaded,
    ConsumerGroupStored,
    ConsumerMemberDetails,
    ConsumerMemberDropped,
    ConsumerMemberStored,
    CurrentAssignmentDropped,
    CurrentAssignmentStored,
    ExpressionDropped,
    ExpressionStored,
    PartitionMetadataDropped,
    TargetDropped,
    TargetEpochDropped,
    TargetEpochStored,
    TargetStored,
)
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember, details_bytes
from kohort.groups.events import Event
from kohort.groups.state import State
from kohort.model.ids import GroupId, MemberId

NO_EPOCH = -1


def made(state: State, group_id: GroupId) -> ConsumerGroup:
    """The group; the first record of a group makes it, in the place of a classic group without members."""
    found = state.groups.get(group_id)
    if isinstance(found, ConsumerGroup):
        return found
    group = state.groups[group_id] = ConsumerGroup(group_id=group_id)
    return group


def _group_stored(state: State, event: ConsumerGroupStored) -> None:
    group = made(state, event.group_id)
    group.epoch, group.metadata_hash = event.epoch, event.metadata_hash


def _group_dropped(state: State, event: ConsumerGroupDropped) -> None:
    group = state.consumer(event.group_id)
    if group is not None:
        state.members_bytes -= group.members_bytes
        del state.groups[event.group_id]


def _partition_metadata_dropped(state: State, event: PartitionMetadataDropped) -> None:
    group = state.consumer(event.group_id)
    if group is not None:
        group.has_partition_metadata = False


def _count(state: State, group: ConsumerGroup, member: ConsumerMember, by: int) -> None:
    """Count a member in, or out if ``by`` is -1."""
    size = by * details_bytes(member.member_id, member.details)
    group.members_bytes += size
    state.members_bytes += size
    subscription = member.details.subscription
    before = group.subscriptions[subscription]
    group.subscriptions[subscription] = before + by
    if not before + by:
        del group.subscriptions[subscription]
    if not before or not before + by:
        group.topics_cache = None


def _put_member(
    state: State, group: ConsumerGroup, member_id: MemberId, details: ConsumerMemberDetails
) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        member = group.members[member_id] = ConsumerMember(member_id)
    else:
        _count(state, group, member, -1)
    member.details = details
    _count(state, group, member, 1)
    return member


def _member_stored(state: State, event: ConsumerMemberStored) -> None:
    group = made(state, event.group_id)
    known = group.members.get(event.member_id)
    old = None if known is None else known.details.instance_id
    if old is not None and old != event.details.instance_id and group.instances.get(old) == event.member_id:
        del group.instances[old]
    _put_member(state, group, event.member_id, event.details)
    if event.details.instance_id is not None:
        group.instances[event.details.instance_id] = event.member_id


def _member_dropped(state: State, event: ConsumerMemberDropped) -> None:
    group = state.consumer(event.group_id)
    member = None if group is None else group.members.pop(event.member_id, None)
    if group is None or member is None:
        return
    _count(state, group, member, -1)
    _release(group, member)
    instance = member.details.instance_id
    if instance is not None and group.instances.get(instance) == event.member_id:
        del group.instances[instance]


def _target_epoch_stored(state: State, event: TargetEpochStored) -> None:
    made(state, event.group_id).target_epoch = event.epoch


def _target_epoch_dropped(state: State, event: TargetEpochDropped) -> None:
    group = state.consumer(event.group_id)
    if group is not None:
        group.target_epoch = NO_EPOCH


def _target_stored(state: State, event: TargetStored) -> None:
    made(state, event.group_id).targets[event.member_id] = event.partitions


def _target_dropped(state: State, event: TargetDropped) -> None:
    group = state.consumer(event.group_id)
    if group is not None:
        group.targets.pop(event.member_id, None)


def _current_stored(state: State, event: CurrentAssignmentStored) -> None:
    group = made(state, event.group_id)
    member = group.members.get(event.member_id)
    if member is None:
        member = _put_member(state, group, event.member_id, ConsumerMemberDetails())
    _take(group, member, event.current)


def _current_dropped(state: State, event: CurrentAssignmentDropped) -> None:
    group = state.consumer(event.group_id)
    member = None if group is None else group.members.get(event.member_id)
    if group is not None and member is not None:
        _take(group, member, CurrentAssignment(NO_EPOCH, NO_EPOCH))


def _take(group: ConsumerGroup, member: ConsumerMember, current: CurrentAssignment) -> None:
    before = member.current
    if before.assigned != current.assigned or before.pending_revocation != current.pending_revocation:
        _release(group, member)
        _own(group, member.member_id, current)
    member.current = current


def _own(group: ConsumerGroup, member_id: MemberId, current: CurrentAssignment) -> None:
    for partitions in (current.assigned, current.pending_revocation):
        for topic, numbers in partitions.items():
            group.owners.setdefault(topic, {}).update(dict.fromkeys(numbers, member_id))


def _release(group: ConsumerGroup, member: ConsumerMember) -> None:
    for partitions in (member.current.assigned, member.current.pending_revocation):
        for topic, number in each_partition(partitions):
            owners = group.owners.get(topic, {})
            if owners.get(number) == member.member_id:
                del owners[number]
                if not owners:
                    del group.owners[topic]


def _expression_stored(state: State, event: ExpressionStored) -> None:
    group = made(state, event.group_id)
    group.expressions[event.expression] = event.resolved
    group.topics_cache = None


def _expression_dropped(state: State, event: ExpressionDropped) -> None:
    group = state.consumer(event.group_id)
    if group is not None:
        group.expressions.pop(event.expression, None)
        group.topics_cache = None


def _loaded(state: State, event: ConsumerGroupLoaded) -> None:
    """Compaction can show two owners of a partition: the one with the higher epoch keeps it."""
    group = made(state, event.group_id)
    group.owners = {}
    for member in sorted(group.members.values(), key=lambda each: each.current.member_epoch, reverse=True):
        current = member.current
        member.current = replace(
            current,
            assigned=_without_owner(group, current.assigned),
            pending_revocation=_without_owner(group, current.pending_revocation),
        )
        _own(group, member.member_id, member.current)


def _without_owner(group: ConsumerGroup, partitions: TopicPartitions) -> TopicPartitions:
    kept = {
        topic: frozenset(number for number in numbers if not group.is_owned(topic, number))
        for topic, numbers in partitions.items()
    }
    return {topic: numbers for topic, numbers in kept.items() if numbers}


APPLY: dict[type[Event], Callable[[State, Any], None]] = {
    ConsumerGroupStored: _group_stored,
    ConsumerGroupDropped: _group_dropped,
    PartitionMetadataDropped: _partition_metadata_dropped,
    ConsumerMemberStored: _member_stored,
    ConsumerMemberDropped: _member_dropped,
    TargetEpochStored: _target_epoch_stored,
    TargetEpochDropped: _target_epoch_dropped,
    TargetStored: _target_stored,
    TargetDropped: _target_dropped,
    CurrentAssignmentStored: _current_stored,
    CurrentAssignmentDropped: _current_dropped,
    ExpressionStored: _expression_stored,
    ExpressionDropped: _expression_dropped,
    ConsumerGroupLoaded: _loaded,
}
