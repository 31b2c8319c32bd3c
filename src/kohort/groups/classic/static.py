"""Static members that come back without their id: they replace themselves (KIP-345, KIP-814;
classic-groups 3.8)."""

from kohort.groups.causes import Cause, InstanceReturned
from kohort.groups.classic.membership import joined_members
from kohort.groups.classic.rebalance import maybe_prepare_rebalance
from kohort.groups.classic.state import Group, Member
from kohort.groups.classic.transitions import Phase
from kohort.groups.classic.vote import select_protocol
from kohort.groups.commands import NO_MEMBER, Join
from kohort.groups.events import GroupStored, JoinParked, MemberReplaced, MemberUpdated
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinReply, SyncReply
from kohort.groups.sessions import arm_session, cancel_session
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId


def replace_static_member(group: Group, command: Join, member_id: MemberId, out: Outcome) -> None:
    """Give the instance its new id; rebalance only if that is not to be avoided."""
    assert command.instance_id is not None
    old = group.members[group.instances[command.instance_id]]
    leader = group.leader or NO_MEMBER
    cause = InstanceReturned(command.instance_id, old.member_id, member_id, command.reason)
    _fence_parked_requests(old, out)
    _rename(group, old, member_id, cause, out)
    out.emit(
        MemberUpdated(
            group.group_id,
            member_id,
            command.session_timeout_ms,
            command.effective_rebalance_timeout_ms,
            command.protocols,
            cause,
        )
    )
    goes_on = group.phase is Phase.STABLE and select_protocol(group) == group.protocol
    if goes_on and out.fits(stored := GroupStored(group.group_id, group.image(), cause)):
        out.emit(stored)
        out.reply(command.reply_to, _stored_reply(group, command, member_id, leader), out.position)
    else:
        # In CompletingRebalance whatever the vote: the leader may already be assigning to the old id.
        out.emit(JoinParked(group.group_id, member_id, command.reply_to, cause))
        maybe_prepare_rebalance(group, cause, out)


def _stored_reply(group: Group, command: Join, member_id: MemberId, old_leader: MemberId) -> JoinReply:
    """The generation goes on, so a leader that came back must not assign again.

    From version 9 on the answer says so; an older answer names its old id as the leader.
    """
    skips = command.supports_skip_assignment and group.leader == member_id
    return JoinReply(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=member_id if skips else old_leader,
        member_id=member_id,
        skip_assignment=skips,
        members=joined_members(group) if skips else (),
    )


def _fence_parked_requests(old: Member, out: Outcome) -> None:
    if old.parked_join is not None:
        fenced = JoinReply(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id)
        out.reply(old.parked_join, fenced)
    if old.parked_sync is not None:
        out.reply(old.parked_sync, SyncReply(error=ErrorCode.FENCED_INSTANCE_ID))


def _rename(group: Group, member: Member, member_id: MemberId, cause: Cause, out: Outcome) -> None:
    """Move the member to another id. Its session starts again, with the same timeout."""
    assert member.instance_id is not None
    cancel_session(out.state, group.group_id, member.member_id)
    out.emit(MemberReplaced(group.group_id, member.instance_id, member.member_id, member_id, cause))
    arm_session(out.state, group.group_id, member_id, member.session_timeout_ms, out.now.instant)
