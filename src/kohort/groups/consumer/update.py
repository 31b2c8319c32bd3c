"""One step of a member: what a heartbeat (or a JoinGroup) of it changes (modern-groups 5).

Everything is decided first, in the order of the specification, and emitted afterwards: either all of it is
true and stored in one batch, or nothing is.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from kohort.assign.server.group import TopicPartitions
from kohort.groups.append_errors import map_append_error
from kohort.groups.causes import (
    Cause,
    InstanceReturned,
    MemberArrived,
    Reconciled,
    SubscriptionChanged,
    TargetComputed,
    TopicsDiffer,
)
from kohort.groups.commands import ComputeTarget
from kohort.groups.consumer.assigning import ask_for_target
from kohort.groups.consumer.assignment import CurrentAssignment, MemberState
from kohort.groups.consumer.events import (
    ConsumerGroupStored,
    ConsumerMemberDetails,
    ConsumerMemberDropped,
    ConsumerMemberStored,
    CurrentAssignmentDropped,
    CurrentAssignmentStored,
    ExpressionDropped,
    PartitionMetadataDropped,
    TargetDropped,
    TargetStored,
)
from kohort.groups.consumer.reconcile import ReconcileInput, reconcile
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.consumer.target import (
    MemberChange,
    group_spec,
    metadata_hash,
    run_assignor,
    subscriptions_with,
    target_events,
    topic_ids,
)
from kohort.groups.events import DurableEvent
from kohort.groups.outcome import Outcome
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId

FRESH = ConsumerMemberDetails()


class ExpressionStatus(Enum):
    """What a heartbeat means for the expressions of the group (modern-groups 11)."""

    NO_CHANGE = auto()
    UPDATED = auto()
    UPDATED_AND_RESOLVED = auto()


@dataclass(slots=True, kw_only=True)
class MemberUpdate:
    """What a request says of a member. ``replaced`` is the static member whose place it takes."""

    group: ConsumerGroup
    member_id: MemberId
    details: ConsumerMemberDetails
    owned: TopicPartitions | None
    replaced: ConsumerMember | None = None
    events: list[DurableEvent] = field(default_factory=list)
    reason: str | None = None
    seen_changes: int | None = None  # how many changes of topics were looked at, if any were
    to_ask: ComputeTarget | None = None  # the target that the shell is to compute

    @property
    def known(self) -> ConsumerMember | None:
        """The member as it was: itself, or the one that it replaces."""
        return self.replaced or self.group.members.get(self.member_id)

    @property
    def change(self) -> MemberChange:
        return MemberChange(self.member_id, self.details, self.replaced)


def update_member(update: MemberUpdate, out: Outcome) -> CurrentAssignment | ErrorCode:
    """Make the update true, and return what the member has then; or why nothing of it is true."""
    known = update.known
    if known is not None and not update.replaced and _is_settled(update, known, out):
        return known.current
    before = known.details if known is not None else FRESH
    cause = _cause(update, before)
    current = _begin(update, known, cause)
    status = _handle_expression(update, before, cause)
    names_changed = before.names != update.details.names
    epoch = _group_epoch(update, names_changed or status is ExpressionStatus.UPDATED_AND_RESOLVED, cause, out)
    found = _target(update, epoch, out)
    if isinstance(found, ErrorCode):
        return found
    target, target_epoch = found
    settled = reconcile(
        current,
        ReconcileInput(
            target=target,
            target_epoch=target_epoch,
            owned=update.owned,
            subscribed=topic_ids(update.group.topics_of(update.details.subscription), out.state.topics),
            subscription_changed=names_changed or status is not ExpressionStatus.NO_CHANGE,
            is_owned=update.group.is_owned,
        ),
    )
    if isinstance(settled, ErrorCode):
        return settled
    if settled is not current or known is None:
        update.events.append(
            CurrentAssignmentStored(
                update.group.group_id, update.member_id, settled, _reconciled(update, settled, target)
            )
        )
    if not out.emit_together(update.events):
        return map_append_error(ErrorCode.MESSAGE_TOO_LARGE)
    group = out.state.consumer(update.group.group_id)
    assert group is not None
    if update.seen_changes is not None:
        group.seen_changes = update.seen_changes
    if update.to_ask is not None:
        ask_for_target(group, update.to_ask, out)
    return settled


def _is_settled(update: MemberUpdate, known: ConsumerMember, out: Outcome) -> bool:
    """The commonest case: the member says nothing new, and there is no news for it."""
    group = update.group
    return (
        known.details == update.details
        and known.current.is_reconciled(group.target_epoch)
        and group.epoch == group.target_epoch
        and group.seen_changes == out.state.topics.changes
    )


def _cause(update: MemberUpdate, before: ConsumerMemberDetails) -> Cause:
    details = update.details
    if update.replaced is not None:
        assert details.instance_id is not None
        return InstanceReturned(
            details.instance_id, update.replaced.member_id, update.member_id, update.reason
        )
    if before is FRESH:
        return MemberArrived(update.member_id, details.instance_id, update.reason)
    return SubscriptionChanged(update.member_id, details.names, details.expression)


def _begin(update: MemberUpdate, known: ConsumerMember | None, cause: Cause) -> CurrentAssignment:
    """The member as this request finds it; what it says about itself is stored if it is new."""
    group_id, member_id, events = update.group.group_id, update.member_id, update.events
    if known is None:
        events.append(ConsumerMemberStored(group_id, member_id, update.details, cause))
        return CurrentAssignment()
    current = known.current
    if update.replaced is not None:
        old = update.replaced
        current = old.current.hand_over()
        events += [
            CurrentAssignmentDropped(group_id, old.member_id, cause),
            TargetDropped(group_id, old.member_id, cause),
            ConsumerMemberDropped(group_id, old.member_id, cause),
            ConsumerMemberStored(group_id, member_id, old.details, cause),
            TargetStored(group_id, member_id, update.group.target_of(old.member_id), cause),
            CurrentAssignmentStored(group_id, member_id, current, cause),
        ]
    if known.details != update.details:
        events.append(ConsumerMemberStored(group_id, member_id, update.details, cause))
    return current


def _handle_expression(update: MemberUpdate, before: ConsumerMemberDetails, cause: Cause) -> ExpressionStatus:
    group, old, new = update.group, before.expression, update.details.expression
    if old == new:
        return ExpressionStatus.NO_CHANGE
    if old and group.users_of(old) == 1 and old in group.expressions:
        update.events.append(ExpressionDropped(group.group_id, old, cause))
    if not new:
        return ExpressionStatus.UPDATED_AND_RESOLVED
    is_resolved = group.users_of(new) > 0 and new in group.expressions
    return ExpressionStatus.UPDATED_AND_RESOLVED if is_resolved else ExpressionStatus.UPDATED


def _group_epoch(update: MemberUpdate, bump: bool, cause: Cause, out: Outcome) -> int:
    """The group epoch with this update; it grows when a new target is needed."""
    group, topics = update.group, out.state.topics
    bump = bump or group.epoch == 0
    if not bump and group.seen_changes == topics.changes:
        return group.epoch
    found = metadata_hash(group.subscribed(subscriptions_with(group, update.change)), topics)
    update.seen_changes = topics.changes
    if not bump and found == group.metadata_hash:
        return group.epoch
    if group.has_partition_metadata:
        update.events.append(PartitionMetadataDropped(group.group_id, cause))
    epoch = group.epoch + 1
    why = cause if bump else TopicsDiffer(update.member_id)
    update.events.append(ConsumerGroupStored(group.group_id, epoch, found, why))
    return epoch


def _target(update: MemberUpdate, epoch: int, out: Outcome) -> tuple[TopicPartitions, int] | ErrorCode:
    """What the member is to have, and of which epoch that is.

    All targets are computed again if the group epoch has grown: at once, or by the shell if that takes long.
    Until its answer comes, members follow the target that there is.
    """
    group, member_id = update.group, update.member_id
    old = group.target_of(member_id if update.replaced is None else update.replaced.member_id)
    if epoch <= group.target_epoch or group.assigning is not None:
        return old, group.target_epoch
    if group.cannot_assign:
        group.cannot_assign = False
        return ErrorCode.UNKNOWN_SERVER_ERROR
    assignor = group.preferred_assignor(
        out.state.settings.consumer_assignors, subscriptions_with(group, update.change)
    )
    spec = group_spec(group, out.state.topics, update.change)
    # A member of a new group needs an epoch above zero in its first reply.
    if group.target_epoch > 0 and spec.size > out.state.settings.consumer_target_at_once:
        update.to_ask = ComputeTarget(group.group_id, epoch, assignor, spec)
        return old, group.target_epoch
    targets = run_assignor(assignor, spec)
    update.events += target_events(
        group.group_id, targets, spec.targets, TargetComputed(epoch, assignor, len(targets))
    )
    return targets[member_id], epoch


def _reconciled(update: MemberUpdate, settled: CurrentAssignment, target: TopicPartitions) -> Reconciled:
    waits_for: set[MemberId] = set()
    if settled.state is MemberState.UNRELEASED_PARTITIONS:
        owners = (update.group.owner(topic, n) for topic, numbers in target.items() for n in numbers)
        gone = {update.member_id, update.replaced.member_id if update.replaced else update.member_id}
        waits_for = {owner for owner in owners if owner is not None} - gone
    revokes = sum(map(len, settled.pending_revocation.values()))
    return Reconciled(update.member_id, settled.member_epoch, revokes, tuple(sorted(waits_for)))
