"""ListGroups, DescribeGroups, DeleteGroups (classic-groups 8)."""

from kohort.groups.causes import DeletionRequested
from kohort.groups.classic.removal import remove_group
from kohort.groups.classic.state import Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import DeleteGroups, DescribeGroup, ListGroups
from kohort.groups.events import GroupRestored, OffsetsDeleted
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
from kohort.groups.writes import RemovalWrite
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
    out.reply_to_read(command, ListReply(groups=groups))


def describe_group(command: DescribeGroup, out: Outcome) -> None:
    """One group, or that there is none: as a state up to version 5, as an error from 6 on."""
    group = out.state.groups.get(command.group_id)
    out.reply_to_read(command, _describe_none(command) if group is None else _describe(group))


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
    """Delete the empty ones with all their offsets; each group has its own result."""
    results: list[DeletedGroup] = []
    undo: list[GroupRestored] = []
    for group_id in dict.fromkeys(command.group_ids):
        error = _check_deletable(out.state.groups.get(group_id))
        if not error:
            undo.append(_delete(group_id, out))
        results.append(DeletedGroup(group_id, error))
    reply = DeleteGroupsReply(groups=tuple(results))
    if undo:
        out.when_stored(RemovalWrite(undo=tuple(undo), reply_to=command.reply_to, reply=reply))
    else:
        out.reply(command.reply_to, reply)


def _check_deletable(group: Group | None) -> ErrorCode:
    if group is None or group.phase is Phase.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.phase is Phase.EMPTY else ErrorCode.NON_EMPTY_GROUP


def _delete(group_id: GroupId, out: Outcome) -> GroupRestored:
    cause = DeletionRequested("the group")
    offsets = tuple(offsets_of(out.state, group_id))
    if offsets:
        out.store(OffsetsDeleted(group_id, offsets, cause))
    return remove_group(out.state.groups[group_id], cause, out)
