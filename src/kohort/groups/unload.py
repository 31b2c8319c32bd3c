"""The partition goes: everyone who waits is told to look for the coordinator elsewhere
(classic-groups 7.4)."""

from kohort.groups.causes import PartitionUnloaded
from kohort.groups.classic.state import Group
from kohort.groups.commands import Unload
from kohort.groups.events import GroupDied
from kohort.groups.offsets.fetch import refuse_stable_fetch
from kohort.groups.outcome import Outcome
from kohort.groups.replies import DescribeReply, JoinReply, ListReply, SyncReply
from kohort.groups.settle import failed_answer
from kohort.groups.writes import InFlight
from kohort.model.errors import ErrorCode

_MOVED = ErrorCode.NOT_COORDINATOR


def unload(command: Unload, out: Outcome) -> None:
    """Answer everyone with 16, stop all timers; the groups are dead and the shard can be dropped."""
    state = out.state
    for group in state.groups.values():
        _send_away(group, out)
        out.emit(GroupDied(group.group_id, out.now.wall, PartitionUnloaded()))
    for batch in state.in_flight.values():
        _give_up(batch, out)
    state.in_flight.clear()
    for purgatory in (state.heartbeats, state.rebalances, state.housekeeping):
        for operation in tuple(purgatory):
            operation.cancel()


def _send_away(group: Group, out: Outcome) -> None:
    for member in group.members.values():
        if member.parked_join is not None:
            out.reply(member.parked_join, JoinReply(error=_MOVED, member_id=member.member_id))
        if member.parked_sync is not None:
            out.reply(member.parked_sync, SyncReply(error=_MOVED))


def _give_up(batch: InFlight, out: Outcome) -> None:
    for write in batch.writes:
        answer = failed_answer(write, _MOVED)
        if answer is not None:
            out.reply(*answer)
    for read, reply in batch.reads:
        if isinstance(reply.body, DescribeReply):
            out.reply(read.reply_to, DescribeReply(group_id=reply.body.group_id, error=_MOVED))
        else:
            out.reply(read.reply_to, ListReply(error=_MOVED))
    for fetch in batch.stable_fetches:
        refuse_stable_fetch(fetch, _MOVED, out)
