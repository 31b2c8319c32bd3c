"""Session timers: how long a member, a new member or a handed-out id may be silent (classic-groups 5.2).

Deadlines live in the timing wheel, not in the group: a heartbeat moves one number and emits nothing.
"""

from kohort.coordination.purgatory import DelayedOperation
from kohort.groups.commands import ExpireSession, Resume
from kohort.groups.outcome import Outcome
from kohort.groups.state import State
from kohort.model.ids import GroupId, Instant, MemberId


class DelayedHeartbeat(DelayedOperation[Outcome]):
    """Waits for silence. Who is silent, and what follows, is looked up when it fires (``expiry.py``)."""

    __slots__ = ("group_id", "member_id", "timeout_ms")

    def __init__(self, group_id: GroupId, member_id: MemberId, timeout_ms: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.member_id = member_id
        self.timeout_ms = timeout_ms

    def on_expiration(self, context: Outcome) -> None:
        """Tell that nothing was heard for the whole timeout."""
        context.fired.append(ExpireSession(self.group_id, self.member_id, self.timeout_ms, self.deadline))


def arm_session(state: State, group_id: GroupId, member_id: MemberId, timeout_ms: int, now: Instant) -> None:
    """Start the session again; it replaces the one that ran."""
    if extend_session(state, group_id, member_id, timeout_ms, now):
        return
    deadline = Instant(now + timeout_ms)
    running = state.heartbeats.find((group_id, member_id))
    if isinstance(running, DelayedHeartbeat):
        running.timeout_ms = timeout_ms
        state.heartbeats.postpone(running, deadline)
    else:
        fresh = DelayedHeartbeat(group_id, member_id, timeout_ms)
        state.heartbeats.watch(fresh, ((group_id, member_id),), deadline)


def extend_session(
    state: State, group_id: GroupId, member_id: MemberId, timeout_ms: int, now: Instant
) -> bool:
    """Start a running session again; false, and nothing is done, if a timer has to be set for it.

    Nearly always that is all that a heartbeat costs.
    """
    running = state.heartbeats.find((group_id, member_id))
    if not isinstance(running, DelayedHeartbeat) or now + timeout_ms < running.scheduled:
        return False
    running.timeout_ms = timeout_ms
    running.deadline = Instant(now + timeout_ms)
    return True


def cancel_session(state: State, group_id: GroupId, member_id: MemberId) -> None:
    """Stop watching a member or id that is gone."""
    state.heartbeats.cancel((group_id, member_id))


def resume(command: Resume, out: Outcome) -> None:
    """Give every member its whole session, and who is waited for the time that was lost."""
    state, now = out.state, out.now.instant
    for session in tuple(state.heartbeats):
        if isinstance(session, DelayedHeartbeat):
            arm_session(state, session.group_id, session.member_id, session.timeout_ms, now)
    for waiting in dict.fromkeys(state.rebalances):
        state.rebalances.postpone(waiting, Instant(waiting.deadline + command.silent_ms))
