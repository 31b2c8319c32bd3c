"""Members go; what they had parked is answered first, and a new leader is there afterwards."""

from collections.abc import Iterable

from kohort.coordination.positions import NOTHING
from kohort.groups.causes import Cause
from kohort.groups.classic.state import Group, Member
from kohort.groups.classic.transitions import Phase
from kohort.groups.events import AssignmentDropped, GroupTombstoned, IdDropped, LeaderChosen, MemberRemoved
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinedMember, JoinReply, SyncReply
from kohort.groups.sessions import arm_session, cancel_session
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId, ReplyTo


def remove_member(group: Group, member: Member, cause: Cause, out: Outcome) -> None:
    """Remove a member. Its parked requests get UNKNOWN_MEMBER_ID; if it led, the first other member leads."""
    cancel_session(out.state, group.group_id, member.member_id)
    if member.parked_join is not None:
        out.reply(member.parked_join, JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID))
    if member.parked_sync is not None:
        # Kafka forgets this request; we answer it, so that its connection is not stuck.
        out.reply(member.parked_sync, SyncReply(error=ErrorCode.UNKNOWN_MEMBER_ID))
    out.emit(MemberRemoved(group.group_id, member.member_id, cause))
    if group.leader is None and group.members:
        out.emit(LeaderChosen(group.group_id, next(iter(group.members)), cause))


def drop_pending_id(group: Group, member_id: MemberId, cause: Cause, out: Outcome) -> None:
    """Stop waiting for an id that was handed out."""
    cancel_session(out.state, group.group_id, member_id)
    out.emit(IdDropped(group.group_id, member_id, cause))


def remove_group(group: Group, cause: Cause, out: Outcome) -> None:
    """Remove an empty group, handed-out ids included."""
    assert group.phase is Phase.EMPTY, "a group with members is not removed"
    for member_id in group.pending:
        cancel_session(out.state, group.group_id, member_id)
    out.emit(GroupTombstoned(group.group_id, cause))


def reset_and_propagate_assignment_error(group: Group, error: ErrorCode, cause: Cause, out: Outcome) -> None:
    """The assignment of this generation comes to nothing: tell everyone who waits for it."""
    parked = [(m.parked_sync, m) for m in group.members.values() if m.parked_sync is not None]
    out.emit(AssignmentDropped(group.group_id, error, cause))
    propagate_assignment(group, [(to, member, SyncReply(error=error)) for to, member in parked], out)


def propagate_assignment(
    group: Group, answers: Iterable[tuple[ReplyTo, Member, SyncReply]], out: Outcome, after: int = NOTHING
) -> None:
    """Answer parked syncs. Their members can be heard again, so their sessions run again."""
    for reply_to, member, reply in answers:
        out.reply(reply_to, reply, after)
        arm_session(out.state, group.group_id, member.member_id, member.session_timeout_ms, out.now.instant)


def joined_members(group: Group) -> tuple[JoinedMember, ...]:
    """The members as the leader sees them: with their metadata for the selected protocol."""
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata_for(group.protocol))
        for member in group.members.values()
    )
