"""ListGroups, DescribeGroups, DeleteGroups (classic-groups 8)."""

from kohort.coordination.positions import NOTHING
from kohort.groups.append_errors import map_append_error
from kohort.groups.causes import DeletionRequested
from kohort.groups.classic.membership import remove_group
from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import DeleteGroups, DescribeGroup, ListGroups
from kohort.groups.events import GroupTombstoned, OffsetsDeleted
from kohort.groups.offsets.delete import offsets_of
from kohort.groups.outcome import Outcome
from kohort.groups.replies import (
    DeletedGroup,
    DeleteGroupsReply,
    DescribedMember,
    DescribeReply,
    ListedGroup,
    ListReply,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId

CLASSIC = "classic"


def list_groups(command: ListGroups, out: Outcome) -> None:
    """The groups of this shard; filters are trimmed and ignore case, an unknown value matches nothing."""
    states = {state.strip().lower() for state in command.states}
    types = {kind.strip().lower() for kind in command.types}
    groups: tuple[ListedGroup, ...] = ()
    if not types or CLASSIC in types:
        groups = tuple(
            ListedGroup(group.group_id, group.protocol_type or "", group.phase.value, CLASSIC)
            for group in out.state.groups.values()
            if not states or group.phase.value.lower() in states
        )
    out.reply(command.reply_to, ListReply(groups=groups), out.state.positions.newest())


def describe_group(command: DescribeGroup, out: Outcome) -> None:
    """One group, or that there is none: as a state up to version 5, as an error from 6 on."""
    group = out.state.groups.get(command.group_id)
    body = _describe_none(command) if group is None else _describe(group)
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


def delete_groups(command: DeleteGroups, out: Outcome) -> None:
    """Delete the empty ones with all their offsets, in one batch; each group has its own result."""
    names = tuple(dict.fromkeys(command.group_ids))
    after = max((out.rests_on(group_id) for group_id in names), default=NOTHING)
    results = tuple(DeletedGroup(group_id, _delete(group_id, out)) for group_id in names)
    out.reply(command.reply_to, DeleteGroupsReply(groups=results), out.position or after)


def _delete(group_id: GroupId, out: Outcome) -> ErrorCode:
    group = out.state.groups.get(group_id)
    if group is None or group.phase is Phase.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.phase is not Phase.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    cause = DeletionRequested("the group")
    offsets = OffsetsDeleted(group_id, tuple(offsets_of(out.state, group_id)), cause)
    if not out.fits(offsets, GroupTombstoned(group_id, cause)):
        return map_append_error(ErrorCode.MESSAGE_TOO_LARGE)
    if offsets.partitions:
        out.emit(offsets)
    remove_group(group, cause, out)
    return ErrorCode.NONE
