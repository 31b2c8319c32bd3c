"""Rebalances: how one is prepared, what ends the join phase, and what members receive then.

``prepare_rebalance`` → members join → ``on_complete_join`` → members sync. The waiting in between is
done by ``DelayedJoin`` (or ``InitialDelayedJoin`` for a group that was empty) and ``DelayedSync``.
"""

from kohort.coordination.purgatory import DelayedOperation
from kohort.groups.causes import Cause, EveryoneJoined, InitialDelayPassed, JoinTimedOut
from kohort.groups.classic.membership import (
    joined_members,
    remove_member,
    reset_and_propagate_assignment_error,
)
from kohort.groups.classic.state import Group, Member
from kohort.groups.classic.subscription import subscribed_topics
from kohort.groups.classic.transitions import CAN_REBALANCE, Phase
from kohort.groups.classic.vote import select_protocol
from kohort.groups.commands import ExpireSync
from kohort.groups.events import (
    GenerationEmptied,
    GenerationStarted,
    GroupStored,
    InitialDelayExtended,
    JoinPhaseExtended,
    LeaderChosen,
    RebalanceStarted,
)
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinReply
from kohort.groups.sessions import arm_session
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, Instant

SHORTEST_EXTENSION_MS = 100  # members may ask for less; Kafka then does nothing but extend


def join_key(group_id: GroupId) -> tuple[str, GroupId]:
    """The purgatory key of a group's join phase."""
    return ("join", group_id)


def sync_key(group_id: GroupId) -> tuple[str, GroupId]:
    """The purgatory key of a group's sync phase."""
    return ("sync", group_id)


class DelayedJoin(DelayedOperation[Outcome]):
    """Waits until all members have joined, or the rebalance timeout has passed."""

    __slots__ = ("group_id", "timeout_ms")

    def __init__(self, group_id: GroupId, timeout_ms: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.timeout_ms = timeout_ms

    def try_complete(self, context: Outcome) -> bool:
        """Complete if everyone has joined."""
        group = context.state.classic(self.group_id)
        return group.everyone_has_joined and self.force_complete(context)

    def on_complete(self, context: Outcome) -> None:
        """End the join phase even if members are missing."""
        group = context.state.classic(self.group_id)
        if group.everyone_has_joined:
            on_complete_join(group, EveryoneJoined(len(group.members)), context)
        else:
            on_complete_join(
                group, JoinTimedOut(self.timeout_ms, group.awaiting_join, len(group.members)), context
            )


class InitialDelayedJoin(DelayedOperation[Outcome]):
    """Waits a fixed time for the members of a group that was empty, and again if more of them came
    (classic-groups 3.9)."""

    __slots__ = ("delay_ms", "group_id", "remaining_ms")

    def __init__(self, group_id: GroupId, delay_ms: int, remaining_ms: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms

    def on_complete(self, context: Outcome) -> None:
        """Wait once more if members came since, and there is time left; else end the join phase."""
        group = context.state.classic(self.group_id)
        cause = InitialDelayPassed(self.delay_ms, self.remaining_ms, len(group.members))
        if not (group.new_member_added and self.remaining_ms):
            on_complete_join(group, cause, context)
            return
        delay = min(context.state.settings.initial_rebalance_delay_ms, self.remaining_ms)
        remaining = max(self.remaining_ms - self.delay_ms, 0)
        context.emit(InitialDelayExtended(self.group_id, delay, remaining, cause))
        _await_joins(InitialDelayedJoin(self.group_id, delay, remaining), delay, context)


class DelayedSync(DelayedOperation[Outcome]):
    """Waits until all members of a generation have asked for their assignment."""

    __slots__ = ("generation", "group_id", "timeout_ms")

    def __init__(self, group_id: GroupId, generation: Generation, timeout_ms: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.generation = generation
        self.timeout_ms = timeout_ms

    def try_complete(self, context: Outcome) -> bool:
        """Complete if no member is missing."""
        return not context.state.classic(self.group_id).pending_sync and self.force_complete(context)

    def on_expiration(self, context: Outcome) -> None:
        """Tell that members are missing; ``expiry.py`` removes them."""
        context.fired.append(ExpireSync(self.group_id, self.generation, self.timeout_ms))


def maybe_prepare_rebalance(group: Group, cause: Cause, out: Outcome) -> None:
    """A member was added, updated or removed: start a rebalance, or see whether the running one can go on."""
    if group.phase in CAN_REBALANCE:
        prepare_rebalance(group, cause, out)
    else:
        out.state.rebalances.check_and_complete(join_key(group.group_id), out)


def prepare_rebalance(group: Group, cause: Cause, out: Outcome) -> None:
    """Have everyone join again. The generation stays what it is until they have."""
    group_id = group.group_id
    if group.phase is Phase.COMPLETING_REBALANCE:
        reset_and_propagate_assignment_error(group, ErrorCode.REBALANCE_IN_PROGRESS, cause, out)
    out.state.rebalances.cancel(sync_key(group_id))
    was_empty = group.phase is Phase.EMPTY
    out.emit(RebalanceStarted(group_id, out.now.wall, cause))
    if was_empty:
        delay = out.state.settings.initial_rebalance_delay_ms
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        _await_joins(InitialDelayedJoin(group_id, delay, remaining), delay, out)
    else:
        timeout = group.rebalance_timeout_ms
        _await_joins(DelayedJoin(group_id, timeout), timeout, out)


def _await_joins(operation: DelayedOperation[Outcome], delay_ms: int, out: Outcome) -> None:
    assert isinstance(operation, DelayedJoin | InitialDelayedJoin)
    deadline = Instant(out.now.instant + delay_ms)
    out.state.rebalances.replace(operation, join_key(operation.group_id), deadline, out)


def on_complete_join(group: Group, cause: Cause, out: Outcome) -> None:
    """End the join phase: those who joined make the next generation."""
    out.state.rebalances.cancel(join_key(group.group_id))
    _remove_absent_members(group, cause, out)
    if group.members and not _choose_leader(group, cause, out):
        # Only absent static members: none of them can lead.
        timeout = max(group.rebalance_timeout_ms, SHORTEST_EXTENSION_MS)
        out.emit(JoinPhaseExtended(group.group_id, timeout, cause))
        _await_joins(DelayedJoin(group.group_id, timeout), timeout, out)
    elif group.members:
        _init_next_generation(group, cause, out)
    else:
        _empty_generation(group, cause, out)


def _remove_absent_members(group: Group, cause: Cause, out: Outcome) -> None:
    if group.awaiting_join == len(group.members):
        return
    absent = [m for m in group.members.values() if m.parked_join is None and not m.is_static]
    for member in reversed(absent):  # from the end, so that the lead changes at most once
        remove_member(group, member, cause, out)


def _choose_leader(group: Group, cause: Cause, out: Outcome) -> bool:
    """Have a leader that has joined: the present one, else the first. False if no member has joined."""
    leader = group.members[group.leader] if group.leader is not None else None
    if leader is not None and leader.parked_join is not None:
        return True
    first = next(group.joined_members(), None)
    if first is None:
        return False
    out.emit(LeaderChosen(group.group_id, first.member_id, cause))
    return True


def _empty_generation(group: Group, cause: Cause, out: Outcome) -> None:
    out.emit(GenerationEmptied(group.group_id, Generation(group.generation + 1), out.now.wall, cause))
    out.emit(GroupStored(group.group_id, group.image(), cause))


def _init_next_generation(group: Group, cause: Cause, out: Outcome) -> None:
    protocol = select_protocol(group)
    parked = [(m.parked_join, m) for m in group.members.values() if m.parked_join is not None]
    out.emit(
        GenerationStarted(
            group.group_id,
            Generation(group.generation + 1),
            protocol,
            subscribed_topics(group, protocol),
            out.now.wall,
            cause,
        )
    )
    for reply_to, member in parked:
        out.reply(reply_to, join_reply(group, member))
    for member in group.members.values():
        arm_session(out.state, group.group_id, member.member_id, member.session_timeout_ms, out.now.instant)
    timeout = group.rebalance_timeout_ms
    out.state.rebalances.replace(
        DelayedSync(group.group_id, group.generation, timeout),
        sync_key(group.group_id),
        Instant(out.now.instant + timeout),
        out,
    )


def join_reply(group: Group, member: Member) -> JoinReply:
    """The answer to a member of the present generation; the leader's answer lists all members."""
    assert group.leader is not None, "a group with members has a leader"
    is_leader = member.member_id == group.leader
    return JoinReply(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader,
        member_id=member.member_id,
        members=joined_members(group) if is_leader else (),
    )
