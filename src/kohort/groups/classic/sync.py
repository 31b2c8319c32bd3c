"""SyncGroup: members ask for their assignment, the leader brings it (classic-groups 4)."""

from kohort.groups.append_errors import map_append_error
from kohort.groups.causes import AppendRefused, AssignmentStored, SyncReceived
from kohort.groups.classic.membership import propagate_assignment, reset_and_propagate_assignment_error
from kohort.groups.classic.rebalance import prepare_rebalance, sync_key
from kohort.groups.classic.state import Group, Member
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Sync
from kohort.groups.consumer.classic_members import sync_classic_member
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.events import AssignmentReceived, GroupStored, SyncParked, SyncServed
from kohort.groups.outcome import Outcome
from kohort.groups.replies import SyncReply
from kohort.groups.sessions import arm_session
from kohort.groups.validate import check_group_id, check_sync
from kohort.model.errors import ErrorCode


def sync(command: Sync, out: Outcome) -> None:
    """Decide a SyncGroup, in the order of classic-groups 4.1, then by phase."""
    group = out.state.groups.get(command.group_id)
    if isinstance(group, ConsumerGroup):
        sync_classic_member(group, command, out)
        return
    error = _check(group, command)
    if error:
        out.reply(command.reply_to, SyncReply(error=error))
        return
    assert group is not None
    member = group.members[command.member_id]
    if group.phase is Phase.PREPARING_REBALANCE:
        out.reply(command.reply_to, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
    elif group.phase is Phase.COMPLETING_REBALANCE:
        _park(group, member, command, out)
    else:
        _serve(group, member, command, out)


def _check(group: Group | None, command: Sync) -> ErrorCode:
    error = check_sync(command) or check_group_id(command.group_id)
    if error:
        return error
    if group is None or group.phase is Phase.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.fence(command.member_id, command.instance_id)
    if error:
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(command.protocol_type, group.protocol_type) or _differ(command.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _differ(asked: str | None, is_: str | None) -> bool:
    return asked is not None and is_ is not None and asked != is_


def _park(group: Group, member: Member, command: Sync, out: Outcome) -> None:
    """Wait for the leader. If this is the leader, store what it brings; classic-groups 4.3 says what
    follows."""
    is_leader = member.member_id == group.leader
    cause = SyncReceived(member.member_id, is_leader)
    if member.parked_sync is not None:
        # Kafka never answers the older request: it can only be on a dead connection. We do.
        out.reply(member.parked_sync, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
    out.emit(SyncParked(group.group_id, member.member_id, command.reply_to, cause))
    out.state.rebalances.check_and_complete(sync_key(group.group_id), out)
    if is_leader:
        # Whom the leader forgot gets nothing; whom it invented is not stored.
        brought = dict(command.assignments)
        assignments = {member_id: brought.get(member_id, b"") for member_id in group.members}
        stored = GroupStored(group.group_id, group.image(assignments), cause)
        if out.fits(stored):
            set_and_propagate_assignment(group, stored, out)
        else:
            refuse_assignment(group, out)


def set_and_propagate_assignment(group: Group, stored: GroupStored, out: Outcome) -> None:
    """Everyone who waits gets its own part when it is stored; who has not asked yet waits as long."""
    parked = [(m.parked_sync, m) for m in group.members.values() if m.parked_sync is not None]
    out.emit(stored)
    assignments = tuple((member.member_id, member.assignment) for member in stored.image.members)
    cause = AssignmentStored(group.generation)
    out.emit(AssignmentReceived(group.group_id, group.generation, assignments, out.now.wall, cause))
    answers = [(to, member, sync_reply(group, member)) for to, member in parked]
    propagate_assignment(group, answers, out, out.position)


def refuse_assignment(group: Group, out: Outcome) -> None:
    """The assignment is too large for the log: all get the error and join again (classic-groups 4.3)."""
    cause = AppendRefused(ErrorCode.MESSAGE_TOO_LARGE)
    error = map_append_error(ErrorCode.MESSAGE_TOO_LARGE)
    reset_and_propagate_assignment_error(group, error, cause, out)
    prepare_rebalance(group, cause, out)


def _serve(group: Group, member: Member, command: Sync, out: Outcome) -> None:
    if member.member_id in group.pending_sync:
        out.emit(SyncServed(group.group_id, member.member_id, SyncReceived(member.member_id, False)))
        out.state.rebalances.check_and_complete(sync_key(group.group_id), out)
    arm_session(out.state, group.group_id, member.member_id, member.session_timeout_ms, out.now.instant)
    out.reply(command.reply_to, sync_reply(group, member), out.rests_on(group.group_id))


def sync_reply(group: Group, member: Member) -> SyncReply:
    """A member's own assignment; no member sees another's."""
    return SyncReply(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
