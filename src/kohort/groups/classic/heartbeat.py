"""Heartbeat: the commonest request; it emits nothing and moves one deadline (classic-groups 5.1)."""

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Heartbeat
from kohort.groups.consumer.classic_members import answer_classic_heartbeat
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.outcome import Outcome
from kohort.groups.replies import HeartbeatReply
from kohort.groups.sessions import arm_session
from kohort.groups.state import State
from kohort.groups.validate import check_group_id
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, Instant, MemberId

_ANSWERS = {
    Phase.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    Phase.COMPLETING_REBALANCE: ErrorCode.NONE,
    Phase.STABLE: ErrorCode.NONE,
}


def heartbeat(command: Heartbeat, out: Outcome) -> None:
    """Answer a heartbeat that came as a command."""
    error = answer_heartbeat(
        out.state,
        (command.group_id, command.member_id),
        command.generation,
        command.instance_id,
        out.now.instant,
    )
    out.reply(command.reply_to, HeartbeatReply(error=error))


def answer_heartbeat(
    state: State,
    who: tuple[GroupId, MemberId],
    generation: Generation,
    instance_id: InstanceId | None,
    now: Instant,
) -> ErrorCode:
    """Keep the member's session alive; the error tells it whether to rejoin."""
    group_id, member_id = who
    group = state.groups.get(group_id)
    if group is None or not group_id:
        return check_group_id(group_id) or ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(group, ConsumerGroup):
        return answer_classic_heartbeat(state, group, member_id, generation, instance_id, now)
    member = group.members.get(member_id)
    if instance_id is not None or member is None or group.phase is Phase.DEAD:
        if group.phase is Phase.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = group.fence(member_id, instance_id)
        if error or member is None:
            return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    arm_session(state, group_id, member_id, member.session_timeout_ms, now)
    return _ANSWERS[group.phase]
