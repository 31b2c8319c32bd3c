"""LeaveGroup: a member goes, or an administrator sends some away (classic-groups 5.3)."""

from kohort.groups.causes import MemberLeft
from kohort.groups.classic.membership import drop_pending_id, remove_member
from kohort.groups.classic.rebalance import join_key, prepare_rebalance
from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Leave, Leaver
from kohort.groups.consumer.classic_members import leave_by_request
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.outcome import Outcome
from kohort.groups.replies import LeaveReply, LeftMember
from kohort.groups.validate import check_group_id
from kohort.model.errors import ErrorCode


def leave(command: Leave, out: Outcome) -> None:
    """Take every leaver out, then rebalance once."""
    group = out.state.groups.get(command.group_id)
    if isinstance(group, ConsumerGroup):
        errors = leave_by_request(group, command, out)
        out.reply(command.reply_to, _reply(command, errors), out.position)
        return
    error = check_group_id(command.group_id)
    if not error and group is not None and group.phase is Phase.DEAD:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error:
        out.reply(command.reply_to, LeaveReply(error=error))
    elif group is None:
        unknown = [ErrorCode.UNKNOWN_MEMBER_ID] * len(command.leavers)
        out.reply(command.reply_to, _reply(command, unknown))
    else:
        _leave_group(group, command, out)


def _leave_group(group: Group, command: Leave, out: Outcome) -> None:
    left: list[MemberLeft] = []  # members, not handed-out ids
    errors = [_take_out(group, leaver, left, out) for leaver in command.leavers]
    if group.phase is Phase.PREPARING_REBALANCE:
        out.state.rebalances.check_and_complete(join_key(group.group_id), out)
    elif left:
        # An id that was handed out and given back disturbs no member (classic-groups 10 #15). Of several
        # members who left in one request the first stands for the rebalance.
        prepare_rebalance(group, left[0], out)
    # If the group is empty now, that is stored before the answer.
    out.reply(command.reply_to, _reply(command, errors), out.position)


def _take_out(group: Group, leaver: Leaver, left: list[MemberLeft], out: Outcome) -> ErrorCode:
    member_id, instance_id = leaver.member_id, leaver.instance_id
    if not member_id:
        # An administrator knows the instance, not the id it has at the moment.
        owner = None if instance_id is None else group.instances.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = owner
    elif member_id in group.pending:
        drop_pending_id(group, member_id, MemberLeft(member_id, None, leaver.reason), out)
        return ErrorCode.NONE
    error = group.fence(member_id, instance_id)
    if not error:
        member = group.members[member_id]
        left.append(MemberLeft(member_id, member.instance_id, leaver.reason))
        remove_member(group, member, left[-1], out)
    return error


def _reply(command: Leave, errors: list[ErrorCode]) -> LeaveReply:
    if command.version < 3:
        return LeaveReply(error=errors[0])  # one leaver, one error
    return LeaveReply(
        members=tuple(
            LeftMember(leaver.member_id, leaver.instance_id, error)
            for leaver, error in zip(command.leavers, errors, strict=True)
        )
    )
