"""Requests of the classic protocol in a consumer group (modern-groups 14.2)."""

from kohort.groups.causes import KindChanged, MemberLeft
from kohort.groups.commands import Join, Leave, Leaver, Sync
from kohort.groups.consumer.membership import tombstones
from kohort.groups.consumer.migration import remove_or_downgrade
from kohort.groups.consumer.state import ConsumerGroup, ConsumerMember
from kohort.groups.events import GroupCreated, GroupStored
from kohort.groups.outcome import Outcome
from kohort.groups.replies import JoinReply, SyncReply
from kohort.groups.state import State
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, InstanceId, Instant, MemberId


def empty_to_classic(group: ConsumerGroup, command: Join, out: Outcome) -> None:
    """A classic member joins a consumer group without members: it is a classic group from now on."""
    cause = KindChanged(MemberId(command.member_id or command.client_id), "classic")
    for event in tombstones(group, cause):
        out.emit(event)
    out.emit(GroupCreated(group.group_id, out.now.wall, cause))
    # The log must not forget the offsets with the consumer group.
    out.emit(GroupStored(group.group_id, out.state.classic(group.group_id).image(), cause))


def join_classic_member(group: ConsumerGroup, command: Join, out: Outcome) -> None:
    """Classic members are not served here yet."""
    error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    out.reply(command.reply_to, JoinReply(error=error, member_id=command.member_id))


def sync_classic_member(group: ConsumerGroup, command: Sync, out: Outcome) -> None:
    """Only classic members synchronise."""
    error = group.fence(command.member_id, command.instance_id) or ErrorCode.UNKNOWN_MEMBER_ID
    out.reply(command.reply_to, SyncReply(error=error))


def answer_classic_heartbeat(  # noqa: PLR0913  # a heartbeat makes no objects
    state: State,
    group: ConsumerGroup,
    member_id: MemberId,
    generation: Generation,
    instance_id: InstanceId | None,
    now: Instant,
) -> ErrorCode:
    """Only classic members send this heartbeat."""
    return group.fence(member_id, instance_id) or ErrorCode.UNKNOWN_MEMBER_ID


def leave_by_request(group: ConsumerGroup, command: Leave, out: Outcome) -> list[ErrorCode]:
    """LeaveGroup: of members of either kind, with one group epoch for all of them."""
    gone: dict[MemberId, ConsumerMember] = {}
    errors = [_find_leaver(group, leaver, gone) for leaver in command.leavers]
    if gone:
        first = next(iter(gone.values()))
        reason = next((each.reason for each in command.leavers if each.reason), None)
        cause = MemberLeft(first.member_id, first.details.instance_id, reason)
        remove_or_downgrade(group, tuple(gone.values()), cause, out)
    return errors


def _find_leaver(group: ConsumerGroup, leaver: Leaver, gone: dict[MemberId, ConsumerMember]) -> ErrorCode:
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.instances.get(leaver.instance_id, member_id)
    error = group.fence(member_id, leaver.instance_id)
    if not error:
        gone[member_id] = group.members[member_id]
    return error
