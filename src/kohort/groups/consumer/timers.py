"""Timers of consumer groups: sessions, revocations, requests of classic members (modern-groups 10)."""

from kohort.coordination.purgatory import DelayedOperation
from kohort.groups.commands import ExpireClassicMember, ExpireRevocation
from kohort.groups.consumer.assignment import CurrentAssignment, MemberState
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.outcome import Outcome
from kohort.groups.sessions import arm_session, cancel_session
from kohort.model.ids import GroupId, Instant, MemberId

JOIN_AWAITED, SYNC_AWAITED = "JoinGroup", "SyncGroup"
_REVOCATION = "revocation"


class DelayedRevocation(DelayedOperation[Outcome]):
    """Waits for a member to give up partitions; it says which epoch the member had."""

    __slots__ = ("group_id", "member_epoch", "member_id", "timeout_ms")

    def __init__(self, group_id: GroupId, member_id: MemberId, member_epoch: int, timeout_ms: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.timeout_ms = timeout_ms

    def on_expiration(self, context: Outcome) -> None:
        context.fired.append(
            ExpireRevocation(self.group_id, self.member_id, self.member_epoch, self.timeout_ms)
        )


class DelayedClassicRequest(DelayedOperation[Outcome]):
    """Waits for the JoinGroup or SyncGroup of a classic member."""

    __slots__ = ("awaited", "group_id", "member_id", "timeout_ms")

    def __init__(self, group_id: GroupId, member_id: MemberId, awaited: str, timeout_ms: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.member_id = member_id
        self.awaited = awaited
        self.timeout_ms = timeout_ms

    def on_expiration(self, context: Outcome) -> None:
        context.fired.append(
            ExpireClassicMember(self.group_id, self.member_id, self.awaited, self.timeout_ms)
        )


def _key(kind: str, group_id: GroupId, member_id: MemberId) -> tuple[str, GroupId, MemberId]:
    return kind, group_id, member_id


def start_session(group: ConsumerGroup, member: ConsumerMember, out: Outcome) -> None:
    """Start the session of a member, or start it again."""
    classic = member.details.classic
    timeout = out.state.session_timeout_ms(group.group_id) if classic is None else classic.session_timeout_ms
    arm_session(out.state, group.group_id, member.member_id, timeout, out.now.instant)


def await_revocation(group: ConsumerGroup, member: ConsumerMember, out: Outcome) -> None:
    """Give a member that has to revoke its rebalance timeout; others need none."""
    key = _key(_REVOCATION, group.group_id, member.member_id)
    current: CurrentAssignment = member.current
    if current.state is not MemberState.UNREVOKED_PARTITIONS or member.is_classic:
        out.state.rebalances.cancel(key)
        return
    timeout = member.details.rebalance_timeout_ms
    operation = DelayedRevocation(group.group_id, member.member_id, current.member_epoch, timeout)
    out.state.rebalances.replace(operation, key, Instant(out.now.instant + timeout), out)


def await_request(group: ConsumerGroup, member: ConsumerMember, awaited: str, out: Outcome) -> None:
    """Give a classic member its rebalance timeout for the next request."""
    timeout = member.details.rebalance_timeout_ms
    key = _key(awaited, group.group_id, member.member_id)
    if awaited == JOIN_AWAITED and out.state.rebalances.find(key) is not None:
        return  # it is not waited for again
    operation = DelayedClassicRequest(group.group_id, member.member_id, awaited, timeout)
    out.state.rebalances.replace(operation, key, Instant(out.now.instant + timeout), out)


def has_come(group: ConsumerGroup, member_id: MemberId, awaited: str, out: Outcome) -> None:
    """The request that was waited for is here."""
    out.state.rebalances.cancel(_key(awaited, group.group_id, member_id))


def cancel_timers(group: ConsumerGroup, member_id: MemberId, out: Outcome) -> None:
    """A member is gone: nothing waits for it."""
    cancel_session(out.state, group.group_id, member_id)
    for kind in (_REVOCATION, JOIN_AWAITED, SYNC_AWAITED):
        out.state.rebalances.cancel(_key(kind, group.group_id, member_id))
