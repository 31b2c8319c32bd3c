"""Timers of consumer groups: sessions, revocations, requests of classic members (modern-groups 10)."""

from kohort.coordination.purgatory import DelayedOperation
from kohort.groups.commands import ExpireClassicMember, ExpireRevocation
from kohort.groups.consumer.assignment import MemberState
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.outcome import Outcome
from kohort.groups.sessions import arm_session, cancel_session
from kohort.groups.state import State
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


def start_session(state: State, group: ConsumerGroup, member: ConsumerMember, now: Instant) -> None:
    """Start the session of a member, or start it again."""
    classic = member.details.classic
    timeout = state.session_timeout_ms(group.group_id) if classic is None else classic.session_timeout_ms
    arm_session(state, group.group_id, member.member_id, timeout, now)


def await_revocation(state: State, group: ConsumerGroup, member: ConsumerMember, now: Instant) -> None:
    """Give a member that has to revoke its rebalance timeout; others need none."""
    key = _key(_REVOCATION, group.group_id, member.member_id)
    state.rebalances.cancel(key)
    if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
        timeout = member.details.rebalance_timeout_ms
        epoch = member.current.member_epoch
        operation = DelayedRevocation(group.group_id, member.member_id, epoch, timeout)
        state.rebalances.watch(operation, (key,), Instant(now + timeout))


def await_request(
    state: State, group: ConsumerGroup, member: ConsumerMember, awaited: str, now: Instant
) -> None:
    """Give a classic member its rebalance timeout for the next request."""
    key = _key(awaited, group.group_id, member.member_id)
    if awaited == JOIN_AWAITED and state.rebalances.find(key) is not None:
        return  # the time runs since it was first asked to join
    state.rebalances.cancel(key)
    timeout = member.details.rebalance_timeout_ms
    operation = DelayedClassicRequest(group.group_id, member.member_id, awaited, timeout)
    state.rebalances.watch(operation, (key,), Instant(now + timeout))


def has_come(state: State, group: ConsumerGroup, member_id: MemberId, awaited: str) -> None:
    """The request that was waited for is here."""
    state.rebalances.cancel(_key(awaited, group.group_id, member_id))


def cancel_timers(state: State, group: ConsumerGroup, member_id: MemberId) -> None:
    """A member is gone: nothing waits for it."""
    cancel_session(state, group.group_id, member_id)
    for kind in (_REVOCATION, JOIN_AWAITED, SYNC_AWAITED):
        state.rebalances.cancel(_key(kind, group.group_id, member_id))
