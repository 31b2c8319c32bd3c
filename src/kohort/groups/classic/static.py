"""Static members that come back without their id: they replace themselves (KIP-345, KIP-814;
classic-groups 3.8)."""

from dataclasses import replace

from kohort.groups.causes import AppendRefused, Cause, InstanceReturned
from kohort.groups.classic.membership import joined_members
from kohort.groups.classic.rebalance import maybe_prepare_rebalance
from kohort.groups.classic.sessions import arm_session, cancel_session
from kohort.groups.classic.state import Group, Member
from kohort.groups.classic.transitions import Phase
from kohort.groups.classic.vote import select_protocol, shares_a_protocol
from kohort.groups.commands import NO_MEMBER, Join
from kohort.groups.events import GroupStored, JoinParked, MemberReplaced, MemberUpdated
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinReply, SyncReply
from kohort.groups.state import State
from kohort.groups.writes import ReplacementWrite
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId


def replace_static_member(group: Group, command: Join, member_id: MemberId, out: Outcome) -> None:
    """Give the instance its new id; rebalance only if that is not to be avoided."""
    assert command.instance_id is not None
    old = group.members[group.instances[command.instance_id]]
    write = _write_of(group, old, command, member_id)
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
    if group.phase is Phase.STABLE and select_protocol(group) == group.protocol:
        out.store(GroupStored(group.group_id, group.image(), cause))
        out.when_stored(replace(write, stored=_stored_reply(group, command, write)))
    else:
        # In CompletingRebalance whatever the vote: the leader may already be assigning to the old id.
        out.emit(JoinParked(group.group_id, member_id, command.reply_to, cause))
        maybe_prepare_rebalance(group, cause, out)


def _write_of(group: Group, old: Member, command: Join, member_id: MemberId) -> ReplacementWrite:
    """What is to be remembered of the member as it was, in case its new id cannot be stored."""
    assert old.instance_id is not None
    failed = JoinReply(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or NO_MEMBER,
    )
    return ReplacementWrite(
        group_id=group.group_id,
        instance_id=old.instance_id,
        member_id=member_id,
        reply_to=command.reply_to,
        stored=failed,
        failed=failed,
        old_member_id=old.member_id,
        old_protocols=old.protocols,
        old_session_timeout_ms=old.session_timeout_ms,
        old_rebalance_timeout_ms=old.rebalance_timeout_ms,
    )


def _stored_reply(group: Group, command: Join, write: ReplacementWrite) -> JoinReply:
    """The generation goes on, so a leader that came back must not assign again.

    From version 9 on it is told so; an older one is told that its old id leads.
    """
    reply = replace(write.failed, member_id=write.member_id)
    if command.supports_skip_assignment and group.leader == write.member_id:
        return replace(reply, leader=write.member_id, skip_assignment=True, members=joined_members(group))
    return reply


def _fence_parked_requests(old: Member, out: Outcome) -> None:
    if old.parked_join is not None:
        fenced = JoinReply(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id)
        out.reply(old.parked_join, fenced)
    if old.parked_sync is not None:
        out.reply(old.parked_sync, SyncReply(error=ErrorCode.FENCED_INSTANCE_ID))


def _rename(group: Group, member: Member, member_id: MemberId, cause: Cause, out: Outcome) -> None:
    """Move the member to another id. Its session starts anew, with the timeout it has had."""
    assert member.instance_id is not None
    cancel_session(out.state, group.group_id, member.member_id)
    out.emit(MemberReplaced(group.group_id, member.instance_id, member.member_id, member_id, cause))
    arm_session(out.state, group.group_id, member_id, member.session_timeout_ms, out.now.instant)


def replacement_stored(write: ReplacementWrite, out: Outcome) -> None:
    """The log has the new id: answer, unless it has been replaced or has gone meanwhile."""
    group = out.state.groups.get(write.group_id)
    owner = None if group is None else group.instances.get(write.instance_id)
    if group is not None and owner == write.member_id:
        if out.state.heartbeats.find((group.group_id, owner)) is None:  # it ended while this took so long
            timeout = group.members[owner].session_timeout_ms
            arm_session(out.state, group.group_id, owner, timeout, out.now.instant)
        out.reply(write.reply_to, write.stored)
    elif owner is None:
        out.reply(write.reply_to, JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID))
    else:
        fenced = JoinReply(error=ErrorCode.FENCED_INSTANCE_ID, member_id=write.member_id)
        out.reply(write.reply_to, fenced)


def undo_replacement(write: ReplacementWrite, append: ErrorCode, out: Outcome) -> None:
    """The log refused the new id: the member is what it was before, if it is still there.

    Only its protocols stay if others have come to rely on them meanwhile.
    """
    group = out.state.groups.get(write.group_id)
    if group is None or group.instances.get(write.instance_id) != write.member_id:
        return
    member = group.members[write.member_id]
    is_same_generation = group.generation == write.failed.generation
    can_go_back = is_same_generation and shares_a_protocol(group, member, write.old_protocols)
    cause = AppendRefused(append)
    out.emit(
        MemberUpdated(
            group.group_id,
            write.member_id,
            write.old_session_timeout_ms,
            write.old_rebalance_timeout_ms,
            write.old_protocols if can_go_back else member.protocols,
            cause,
        )
    )
    _rename(group, member, write.old_member_id, cause, out)


def is_being_replaced(member: Member, state: State) -> bool:
    """Whether the member waits for its new id to be stored."""
    return any(
        isinstance(write, ReplacementWrite) and write.member_id == member.member_id
        for write in state.writes_in_flight()
    )
