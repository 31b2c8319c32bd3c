"""One step of a member towards its target: revoke first, then take what is free (modern-groups 6)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from kohort.assign.server.group import TopicPartitions
from kohort.groups.consumer.assignment import CurrentAssignment, MemberState, overlaps
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicId

IsOwned = Callable[[TopicId, Partition], bool]


@dataclass(frozen=True, slots=True)
class ReconcileInput:
    """What reconciliation takes from the group and from the member's heartbeat.

    ``owned`` are the partitions that the member says it has now; ``None`` says nothing and acknowledges no
    revocation. ``is_owned`` tells whether any member, this one included, owns a partition.
    """

    target: TopicPartitions
    target_epoch: int
    owned: TopicPartitions | None
    subscribed: frozenset[TopicId]
    subscription_changed: bool
    is_owned: IsOwned


def reconcile(member: CurrentAssignment, beat: ReconcileInput) -> CurrentAssignment | ErrorCode:
    """The member after this heartbeat; the same object if nothing changes."""
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch != beat.target_epoch:
                return _advance(member, beat)
            return _trim(member, beat) if beat.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _still_owns(member.pending_revocation, beat):
                return _advance(member, beat)
            return _trim(member, beat) if beat.subscription_changed else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _advance(member, beat)
        case MemberState.UNKNOWN:
            # A newer broker wrote this state: only a member that starts from nothing can go on.
            has_nothing = beat.owned is not None and not any(beat.owned.values())
            return _advance(member, beat) if has_nothing else ErrorCode.FENCED_MEMBER_EPOCH
        case _:
            assert_never(member.state)


@dataclass(slots=True)
class _Step:
    """How the member's partitions differ from its target."""

    keep: dict[TopicId, frozenset[Partition]]
    revoke: dict[TopicId, frozenset[Partition]]
    add: dict[TopicId, frozenset[Partition]]
    is_blocked: bool = False  # another member owns a partition that this one is to have


def _advance(member: CurrentAssignment, beat: ReconcileInput) -> CurrentAssignment:
    """The step towards the newest target. While something must be revoked, nothing new is handed out."""
    step = _compare(member, beat)
    if step.revoke and _still_owns(step.revoke, beat):
        return _settled(
            member,
            CurrentAssignment(
                member.member_epoch,
                member.member_epoch,
                MemberState.UNREVOKED_PARTITIONS,
                step.keep,
                step.revoke,
            ),
        )
    state = MemberState.UNRELEASED_PARTITIONS if step.is_blocked else MemberState.STABLE
    assigned = {
        topic: step.keep.get(topic, frozenset()) | step.add.get(topic, frozenset())
        for topic in (*step.keep, *(topic for topic in step.add if topic not in step.keep))
    }
    return _settled(member, CurrentAssignment(beat.target_epoch, member.member_epoch, state, assigned))


def _compare(member: CurrentAssignment, beat: ReconcileInput) -> _Step:
    step = _Step({}, {}, {})
    for topic in (*beat.target, *(topic for topic in member.assigned if topic not in beat.target)):
        assigned = member.assigned.get(topic, frozenset())
        # A topic that the member has just dropped is not in its subscription, though it is in the target.
        target = beat.target.get(topic, frozenset()) if topic in beat.subscribed else frozenset()
        pending = member.pending_revocation.get(topic, frozenset())
        wanted = target - assigned
        blocked = {number for number in wanted - pending if beat.is_owned(topic, number)}
        step.is_blocked |= bool(blocked)
        for share, numbers in (
            (step.keep, assigned & target),
            (step.revoke, assigned - target),
            (step.add, wanted - blocked),
        ):
            if numbers:
                share[topic] = frozenset(numbers)
    return step


def _trim(member: CurrentAssignment, beat: ReconcileInput) -> CurrentAssignment:
    """The subscription shrank, and the epoch does not move: what is not subscribed to any more must go."""
    gone = {topic: numbers for topic, numbers in member.assigned.items() if topic not in beat.subscribed}
    if not gone:
        return member
    assigned = {topic: numbers for topic, numbers in member.assigned.items() if topic not in gone}
    pending = dict(member.pending_revocation)
    for topic, numbers in gone.items():
        pending[topic] = pending.get(topic, frozenset()) | numbers
    if not _still_owns(pending, beat):
        return replace(member, assigned=assigned)
    return replace(
        member, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, pending_revocation=pending
    )


def _still_owns(partitions: TopicPartitions, beat: ReconcileInput) -> bool:
    return beat.owned is None or overlaps(partitions, beat.owned)


def _settled(before: CurrentAssignment, after: CurrentAssignment) -> CurrentAssignment:
    return before if before == after else after
