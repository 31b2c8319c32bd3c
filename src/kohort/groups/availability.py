"""What requests get while a partition cannot be served (classic-groups 7.4)."""

from collections.abc import Callable
from enum import Enum
from typing import assert_never

from kohort.groups.append_errors import map_append_error
from kohort.groups.commands import (
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroups,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribeGroup,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    Request,
    Sync,
)
from kohort.groups.offsets.commit import refuse_commit
from kohort.groups.replies import (
    ConsumerDescribeReply,
    ConsumerHeartbeatReply,
    DeletedGroup,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    DescribeReply,
    FetchReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    ListReply,
    ReplyBody,
    SyncReply,
)
from kohort.groups.settings import GroupSettings
from kohort.groups.validate import check_consumer_heartbeat, check_group_id, check_join, check_sync
from kohort.model.errors import ErrorCode


class Absence(Enum):
    """Why there is no shard to ask. A partition whose load failed counts as NOT_OWNED."""

    STOPPED = ErrorCode.COORDINATOR_NOT_AVAILABLE
    LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    NOT_OWNED = ErrorCode.NOT_COORDINATOR


def heartbeat_error_while(absence: Absence) -> ErrorCode:
    """0 while loading: the member is surely there, and will be heard again before its session ends."""
    return ErrorCode.NONE if absence is Absence.LOADING else absence.value


def sync_error_while(absence: Absence) -> ErrorCode:
    """REBALANCE_IN_PROGRESS while loading: it sends the member back to JoinGroup.

    COORDINATOR_LOAD_IN_PROGRESS would end a Java client.
    """
    return ErrorCode.REBALANCE_IN_PROGRESS if absence is Absence.LOADING else absence.value


def answer_while(absence: Absence, request: Request, settings: GroupSettings) -> ReplyBody:
    """The reply a request gets. What is wrong with the request itself comes first, as with a shard."""
    match request:
        case Join():
            return _refuse_join(absence, request, settings)
        case Sync():
            error = check_sync(request) or _check(absence, request.group_id) or sync_error_while(absence)
            return SyncReply(error=error)
        case Heartbeat():
            return HeartbeatReply(error=_check(absence, request.group_id) or heartbeat_error_while(absence))
        case Leave():
            return LeaveReply(error=_check(absence, request.group_id) or absence.value)
        case ConsumerHeartbeat():
            invalid = None if absence is Absence.STOPPED else check_consumer_heartbeat(request, settings)
            return invalid or refuse(request, absence.value)
        case ListGroups():
            # It asks every shard of a node: one that is not owned simply has no groups.
            return ListReply(error=ErrorCode.NONE if absence is Absence.NOT_OWNED else absence.value)
        case DescribeGroup() | DescribeConsumerGroup() | DeleteGroups() | CommitOffsets() | FetchOffsets():
            return refuse(request, absence.value)
        case DeleteOffsets():
            return refuse(request, _check(absence, request.group_id) or absence.value)
        case _:
            assert_never(request)


def refuse(request: Request, error: ErrorCode) -> ReplyBody:
    """The reply that says ``error`` and nothing else, in the place where the API has one."""
    match request:
        case Join():
            return JoinReply(error=error, member_id=request.member_id)
        case CommitOffsets():
            return refuse_commit(request, error)
        case DescribeGroup():
            return DescribeReply(group_id=request.group_id, error=error)
        case DescribeConsumerGroup():
            return ConsumerDescribeReply(group_id=request.group_id, error=error)
        case ConsumerHeartbeat():
            return ConsumerHeartbeatReply(error=error)
        case DeleteGroups():
            names = dict.fromkeys(request.group_ids)
            return DeleteGroupsReply(groups=tuple(DeletedGroup(name, error) for name in names))
        case Sync() | Heartbeat() | Leave() | FetchOffsets() | DeleteOffsets() | ListGroups():
            return _ERROR_ALONE[type(request)](error=error)
        case _:
            assert_never(request)


_ERROR_ALONE: dict[type[Request], Callable[..., ReplyBody]] = {
    Sync: SyncReply,
    Heartbeat: HeartbeatReply,
    Leave: LeaveReply,
    FetchOffsets: FetchReply,
    DeleteOffsets: DeleteOffsetsReply,
    ListGroups: ListReply,
}


def refuse_unstored(request: Request, append: ErrorCode) -> ReplyBody:
    """The reply to a request whose effect, or what it would have shown, the log refused with ``append``.

    Older consumers retry a fetch of offsets on NOT_COORDINATOR, not on COORDINATOR_NOT_AVAILABLE.
    """
    error = map_append_error(append)
    if isinstance(request, FetchOffsets) and error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode.NOT_COORDINATOR
    return refuse(request, error)


def _refuse_join(absence: Absence, request: Join, settings: GroupSettings) -> JoinReply:
    """Replies to invalid requests repeat the member id; those of a wrong or loading coordinator do not."""
    if absence is Absence.STOPPED:
        return JoinReply(error=absence.value, member_id=request.member_id)
    invalid = check_join(request, settings)
    if invalid:
        return JoinReply(error=invalid, member_id=request.member_id)
    return JoinReply(error=absence.value)


def _check(absence: Absence, group_id: str) -> ErrorCode:
    return ErrorCode.NONE if absence is Absence.STOPPED else check_group_id(group_id)
