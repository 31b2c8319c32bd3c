"""Leaving a consumer group: for good (-1) or for a while (-2) (modern-groups 8)."""

from kohort.groups.causes import MemberLeft, MemberPaused
from kohort.groups.commands import ConsumerHeartbeat
from kohort.groups.consumer.assignment import LEFT_FOR_A_WHILE
from kohort.groups.consumer.events import CurrentAssignmentStored
from kohort.groups.consumer.migration import remove_or_downgrade
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ConsumerHeartbeatReply
from kohort.model.errors import ErrorCode


def leave_consumer_group(command: ConsumerHeartbeat, out: Outcome) -> None:
    """A member says goodbye. Its epoch is compared with nothing."""
    group_id, member_id, instance = command.group_id, command.member_id, command.instance_id
    group = out.state.consumer(group_id)
    if group is None:
        _refuse(command, ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.", out)
        return
    error = group.fence(member_id, instance)
    if error:
        message = f"Member {member_id} is not a member of group {group_id}, or was replaced."
        _refuse(command, error, message, out)
        return
    member = group.members[member_id]
    if command.member_epoch == LEFT_FOR_A_WHILE:
        assert instance is not None
        current = member.current.leave_for_a_while()
        out.emit(CurrentAssignmentStored(group_id, member_id, current, MemberPaused(member_id, instance)))
    else:
        cause = MemberLeft(member_id, member.details.instance_id)
        error = remove_or_downgrade(group, (member,), cause, out)
        if error:
            _refuse(command, error, f"Member {member_id} cannot leave group {group_id} now.", out)
            return
    reply = ConsumerHeartbeatReply(member_id=member_id, member_epoch=command.member_epoch)
    out.reply(command.reply_to, reply, out.position)


def _refuse(command: ConsumerHeartbeat, error: ErrorCode, message: str, out: Outcome) -> None:
    out.reply(command.reply_to, ConsumerHeartbeatReply(error=error, error_message=message))
