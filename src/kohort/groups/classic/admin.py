"""DescribeGroups (classic-groups 8)."""

from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import DescribeGroup
from kohort.groups.outcome import Outcome
from kohort.groups.replies import DescribedMember, DescribeReply
from kohort.model.errors import ErrorCode


def describe_group(command: DescribeGroup, out: Outcome) -> None:
    """One group, or that there is no classic one: as a state up to version 5, as an error from 6 on."""
    group = out.state.groups.get(command.group_id)
    body = _describe(group) if isinstance(group, Group) else _describe_none(command)
    out.reply(command.reply_to, body, out.rests_on(command.group_id))


def _describe_none(command: DescribeGroup) -> DescribeReply:
    if command.version < 6:
        return DescribeReply(group_id=command.group_id, state=Phase.DEAD.value)
    return DescribeReply(
        group_id=command.group_id,
        error=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {command.group_id} not found.",
        state=Phase.DEAD.value,
    )


def _describe(group: Group) -> DescribeReply:
    is_stable = group.phase is Phase.STABLE
    return DescribeReply(
        group_id=group.group_id,
        state=group.phase.value,
        protocol_type=group.protocol_type or "",
        protocol=(group.protocol or "") if is_stable else "",
        members=tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata_for(group.protocol) if is_stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ),
    )
