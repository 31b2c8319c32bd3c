"""Members of a consumer group go; the next heartbeat of another member finds a new target for the rest."""

from collections import Counter
from collections.abc import Sequence

from kohort.groups.append_errors import map_append_error
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
from kohort.model.errors import ErrorCode


def remove_members(
    group: ConsumerGroup, gone: Sequence[ConsumerMember], cause: Cause, out: Outcome
) -> ErrorCode:
    """Take members out with one new group epoch (modern-groups 8); or none, if one batch cannot store it."""
    group_id = group.group_id
    names = {member.member_id: member.details.subscription for member in gone}
    rest = group.subscriptions - Counter(names.values())
    used = {each.expression for each in rest}
    events: list[DurableEvent] = []
    for name in names:
        events += [
            CurrentAssignmentDropped(group_id, name, cause),
            TargetDropped(group_id, name, cause),
            ConsumerMemberDropped(group_id, name, cause),
        ]
    events += [ExpressionDropped(group_id, each, cause) for each in group.expressions if each not in used]
    found = metadata_hash(group.subscribed(rest), out.state.topics)
    events.append(ConsumerGroupStored(group_id, group.epoch + 1, found, cause))
    if not out.emit_together(events):
        return map_append_error(ErrorCode.MESSAGE_TOO_LARGE)
    for name in names:
        cancel_timers(out.state, group, name)
    return ErrorCode.NONE


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
