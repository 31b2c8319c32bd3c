"""Members of a consumer group go; the next heartbeat of another member finds a new target for the rest."""

from collections.abc import Sequence

from kohort.groups.causes import Cause
from kohort.groups.consumer.events import (
    ConsumerGroupDropped,
    ConsumerGroupStored,
    ConsumerMemberDropped,
    CurrentAssignmentDropped,
    ExpressionDropped,
    PartitionMetadataDropped,
    TargetDropped,
    TargetEpochDropped,
)
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.consumer.target import metadata_hash
from kohort.groups.consumer.timers import cancel_timers
from kohort.groups.events import DurableEvent
from kohort.groups.outcome import Outcome


def remove_members(group: ConsumerGroup, gone: Sequence[ConsumerMember], cause: Cause, out: Outcome) -> None:
    """Take members out with one new group epoch (modern-groups 8)."""
    group_id = group.group_id
    for member in gone:
        cancel_timers(out.state, group, member.member_id)
        out.emit(CurrentAssignmentDropped(group_id, member.member_id, cause))
        out.emit(TargetDropped(group_id, member.member_id, cause))
        out.emit(ConsumerMemberDropped(group_id, member.member_id, cause))
    used = group.used_expressions()
    for expression in tuple(group.expressions):
        if expression not in used:
            out.emit(ExpressionDropped(group_id, expression, cause))
    found = metadata_hash(group.subscribed(), out.state.topics)
    out.emit(ConsumerGroupStored(group_id, group.epoch + 1, found, cause))


def tombstones(group: ConsumerGroup, cause: Cause) -> tuple[DurableEvent, ...]:
    """What removes everything of a group from the log, in the order that Kafka's loader wants."""
    group_id = group.group_id
    return (
        *(CurrentAssignmentDropped(group_id, each, cause) for each in group.members),
        *(TargetDropped(group_id, each, cause) for each in group.targets),
        TargetEpochDropped(group_id, cause),
        *(ConsumerMemberDropped(group_id, each, cause) for each in group.members),
        *(ExpressionDropped(group_id, each, cause) for each in group.expressions),
        PartitionMetadataDropped(group_id, cause),
        ConsumerGroupDropped(group_id, cause),
    )
