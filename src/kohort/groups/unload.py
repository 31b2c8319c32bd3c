"""The shard goes: all who wait in it must look for the coordinator again (classic-groups 7.4)."""

from kohort.groups.append_errors import map_append_error
from kohort.groups.causes import AppendRefused, Cause, PartitionUnloaded
from kohort.groups.classic.state import Group
from kohort.groups.commands import Unload
from kohort.groups.events import GroupDied
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinReply, SyncReply
from kohort.model.errors import ErrorCode


def unload(command: Unload, out: Outcome) -> None:
    """Answer parked joins and syncs, stop all timers; the groups are dead and the shard can be dropped.

    Replies that wait for the log never leave: what they say may not be stored. The shell knows the
    requests, and refuses them.
    """
    state = out.state
    refused = command.refused
    error = ErrorCode.NOT_COORDINATOR if refused is None else map_append_error(refused)
    cause: Cause = PartitionUnloaded() if refused is None else AppendRefused(refused)
    for group in tuple(state.groups.values()):
        if isinstance(group, Group):
            _send_away(group, error, out)
        out.emit(GroupDied(group.group_id, out.now.wall, cause))
    state.positions.parked.clear()
    for purgatory in (state.heartbeats, state.rebalances, state.housekeeping):
        for operation in tuple(purgatory):
            operation.cancel()


def _send_away(group: Group, error: ErrorCode, out: Outcome) -> None:
    for member in group.members.values():
        if member.parked_join is not None:
            out.reply(member.parked_join, JoinReply(error=error, member_id=member.member_id))
        if member.parked_sync is not None:
            out.reply(member.parked_sync, SyncReply(error=error))
