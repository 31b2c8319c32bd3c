"""What follows when nothing was heard: of a member, of an id, or of a sync (classic-groups 2.4)."""

from kohort.groups.causes import Cause, NewMemberExpired, PendingIdExpired, SessionExpired, SyncTimedOut
from kohort.groups.classic.membership import drop_pending_id, remove_member
from kohort.groups.classic.rebalance import on_complete_join, prepare_rebalance
from kohort.groups.classic.state import Group, Member
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import ExpireSession, ExpireSync
from kohort.groups.consumer.orders import expire_consumer_session
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.outcome import Outcome


def expire_session(command: ExpireSession, out: Outcome) -> None:
    """A session timer fired for a member, a new member or a handed-out id."""
    group = out.state.groups.get(command.group_id)
    if isinstance(group, ConsumerGroup):
        expire_consumer_session(group, command, out)
        return
    if group is None or group.phase is Phase.DEAD:
        return
    member = group.members.get(command.member_id)
    if member is not None:
        _expire_member(group, member, command, out)
    elif command.member_id in group.pending:
        cause = PendingIdExpired(command.member_id, command.timeout_ms)
        drop_pending_id(group, command.member_id, cause, out)
        _complete_join_without_it(group, cause, out)


def _expire_member(group: Group, member: Member, command: ExpireSession, out: Outcome) -> None:
    waits = member.parked_join is not None or member.parked_sync is not None
    if waits and not member.is_new:
        return  # its connection is busy waiting for us; the answer arms the session again
    cause: Cause
    if member.is_new:
        cause = NewMemberExpired(member.member_id, command.timeout_ms)
    else:
        silent = out.now.instant - (command.deadline - command.timeout_ms)
        cause = SessionExpired(member.member_id, silent, command.timeout_ms)
    remove_member(group, member, cause, out)
    if group.phase is Phase.PREPARING_REBALANCE:
        _complete_join_without_it(group, cause, out)
    else:
        prepare_rebalance(group, cause, out)


def _complete_join_without_it(group: Group, cause: Cause, out: Outcome) -> None:
    """Unlike a join or a leave, an expiry ends even the initial delay (classic-groups 10 #9)."""
    if group.phase is Phase.PREPARING_REBALANCE and group.everyone_has_joined:
        on_complete_join(group, cause, out)


def expire_sync(command: ExpireSync, out: Outcome) -> None:
    """Members of a generation never asked for their assignment: go on without them (classic-groups 4.4)."""
    group = out.state.groups.get(command.group_id)
    if not isinstance(group, Group) or group.generation != command.generation or not group.pending_sync:
        return
    if group.phase not in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        return
    missing = tuple(group.pending_sync)
    cause = SyncTimedOut(command.timeout_ms, command.generation, missing)
    for member_id in missing:
        # An id that was replaced since has no member; its place in the list still costs a rebalance.
        if member_id in group.members:
            remove_member(group, group.members[member_id], cause, out)
    prepare_rebalance(group, cause, out)
