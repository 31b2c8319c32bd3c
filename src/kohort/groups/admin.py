"""ListGroups and DeleteGroups, for every kind of group (classic-groups 8, modern-groups 13)."""

from collections.abc import Iterable

from kohort.coordination.positions import NOTHING
from kohort.groups.append_errors import map_append_error
from kohort.groups.causes import DeletionRequested
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import DeleteGroups, ListGroups
from kohort.groups.events import OffsetsDeleted
from kohort.groups.group import AnyGroup
from kohort.groups.offsets.delete import offsets_of
from kohort.groups.outcome import Outcome
from kohort.groups.removal import remove_group, tombstones
from kohort.groups.replies import DeletedGroup, DeleteGroupsReply, GroupListing, ListReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId


def list_groups(command: ListGroups, out: Outcome) -> None:
    """The groups of this shard; filters are trimmed and ignore case, an unknown value matches nothing."""
    states = {state.strip().lower() for state in command.states}
    types = {kind.strip().lower() for kind in command.types}
    everyone: Iterable[AnyGroup] = out.state.groups.values()
    groups = tuple(
        GroupListing(group.group_id, group.listed_protocol_type, group.state_name, group.type_name)
        for group in everyone
        if (not types or group.type_name in types) and (not states or group.state_name.lower() in states)
    )
    out.reply(command.reply_to, ListReply(groups=groups), out.state.positions.newest())


def delete_groups(command: DeleteGroups, out: Outcome) -> None:
    """Delete the empty ones with all their offsets, in one batch; each group has its own result."""
    names = tuple(dict.fromkeys(command.group_ids))
    after = max((out.rests_on(group_id) for group_id in names), default=NOTHING)
    results = tuple(DeletedGroup(group_id, _delete(group_id, out)) for group_id in names)
    out.reply(command.reply_to, DeleteGroupsReply(groups=results), out.position or after)


def _delete(group_id: GroupId, out: Outcome) -> ErrorCode:
    group: AnyGroup | None = out.state.groups.get(group_id)
    if group is None or group.state_name == Phase.DEAD.value:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty:
        return ErrorCode.NON_EMPTY_GROUP
    cause = DeletionRequested("the group")
    offsets = OffsetsDeleted(group_id, tuple(offsets_of(out.state, group_id)), cause)
    if not out.fits(offsets, *tombstones(group, cause, out)):
        return map_append_error(ErrorCode.MESSAGE_TOO_LARGE)
    if offsets.partitions:
        out.emit(offsets)
    remove_group(group, cause, out)
    return ErrorCode.NONE
