"""What the log's answers lead to: replies that may leave, or the way back (classic-groups 7.5)."""

from dataclasses import replace
from typing import assert_never

from kohort.groups.causes import AppendRefused
from kohort.groups.classic.admin import describe_group, list_groups
from kohort.groups.classic.static import replacement_stored, undo_replacement
from kohort.groups.classic.sync import assignment_failed, assignment_stored
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Appended, AppendFailed, DescribeGroup, FetchOffsets
from kohort.groups.events import GroupRemoved
from kohort.groups.offsets.delete import offsets_of
from kohort.groups.offsets.fetch import answer_fetch, refuse_stable_fetch
from kohort.groups.outcome import Outcome
from kohort.groups.replies import CommittedRow, DeletedGroup, ReplyBody
from kohort.groups.writes import (
    AssignmentWrite,
    CommitWrite,
    DeleteOffsetsWrite,
    InFlight,
    LeaveWrite,
    Read,
    RemovalWrite,
    ReplacementWrite,
    Write,
)
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, ReplyTo

_MAPPED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def map_append_error(error: ErrorCode) -> ErrorCode:
    """What a client is told when the log refused with ``error``."""
    return _MAPPED.get(error, error)


def appended(command: Appended, out: Outcome) -> None:
    """The log has everything up to a position: what was stored is true now, who waited is answered."""
    in_flight = out.state.in_flight
    while in_flight and (position := next(iter(in_flight))) <= command.position:
        batch = in_flight.pop(position)
        for event in batch.events:
            out.emit(event)
        for write in batch.writes:
            _stored(write, position, out)
        out.replies += [reply for _, reply in batch.reads]
        for fetch in batch.stable_fetches:
            answer_fetch(fetch, out, position)


def _stored(write: Write, position: int, out: Outcome) -> None:
    match write:
        case CommitWrite() | LeaveWrite() | DeleteOffsetsWrite():
            out.reply(write.reply_to, write.reply, position)
        case AssignmentWrite():
            assignment_stored(write, out)
        case ReplacementWrite():
            replacement_stored(write, out)
        case RemovalWrite():
            if write.reply_to is not None and write.reply is not None:
                out.reply(write.reply_to, write.reply, position)
        case _:
            assert_never(write)


def append_failed(command: AppendFailed, out: Outcome) -> None:
    """The log refused one batch: what it would have stored never was."""
    batch = out.state.in_flight.pop(command.position, None)
    if batch is None:
        return  # the shard was unloaded meanwhile, and has answered everyone
    error = map_append_error(command.error)
    for write in batch.writes:
        answer = failed_answer(write, error)
        if answer is not None:
            out.reply(*answer)
        _undo(write, command.error, out)
    _refuse_stable_fetches(batch, error, out)
    for read in _take_reads(batch, out):
        if isinstance(read, DescribeGroup):
            describe_group(read, out)
        else:
            list_groups(read, out)


def failed_answer(write: Write, error: ErrorCode) -> tuple[ReplyTo, ReplyBody] | None:
    """What the client is told whose write came to nothing; syncs are answered by their group."""
    match write:
        case ReplacementWrite():
            return write.reply_to, replace(write.failed, error=error)
        case CommitWrite():
            rows = (CommittedRow(row.topic, row.partition, row.error or error) for row in write.reply.rows)
            return write.reply_to, replace(write.reply, rows=tuple(rows))
        case LeaveWrite():
            return write.reply_to, replace(write.reply, error=error, members=())
        case DeleteOffsetsWrite():
            return write.reply_to, replace(write.reply, error=error, rows=())
        case RemovalWrite():
            if write.reply_to is None or write.reply is None:
                return None
            groups = (DeletedGroup(each.group_id, each.error or error) for each in write.reply.groups)
            return write.reply_to, replace(write.reply, groups=tuple(groups))
        case AssignmentWrite():
            return None
        case _:
            assert_never(write)


def _undo(write: Write, append: ErrorCode, out: Outcome) -> None:
    match write:
        case AssignmentWrite():
            assignment_failed(write, append, map_append_error(append), out)
        case ReplacementWrite():
            undo_replacement(write, append, out)
        case RemovalWrite():
            for restored in write.undo:
                if restored.group_id not in out.state.groups:
                    out.emit(replace(restored, cause=AppendRefused(append)))
        case CommitWrite():
            if write.made_group:
                _drop_if_only_an_attempt(write.group_id, append, out)
        case LeaveWrite() | DeleteOffsetsWrite():
            pass  # the answer tells of the failure; the group goes on as it is
        case _:
            assert_never(write)


def _drop_if_only_an_attempt(group_id: GroupId, append: ErrorCode, out: Outcome) -> None:
    """A group that a failed commit made goes, unless somebody has found a use for it since."""
    group = out.state.groups.get(group_id)
    if group is None or group.phase is not Phase.EMPTY or group.protocol_type is not None or group.pending:
        return
    if not offsets_of(out.state, group_id):
        out.emit(GroupRemoved(group_id, AppendRefused(append)))


def _refuse_stable_fetches(batch: InFlight, error: ErrorCode, out: Outcome) -> None:
    """Who waited for this batch and asked about one of its groups cannot be told what is stable."""
    concerned = dict.fromkeys(event.group_id for event in batch.events)
    for fetch in batch.stable_fetches:
        if fetch.group_id in concerned:
            refuse_stable_fetch(fetch, error, out)
        else:
            answer_fetch(fetch, out)
    for later in out.state.in_flight.values():
        waiting: list[FetchOffsets] = []
        for fetch in later.stable_fetches:
            if fetch.group_id in concerned:
                refuse_stable_fetch(fetch, error, out)
            else:
                waiting.append(fetch)
        later.stable_fetches = waiting


def _take_reads(batch: InFlight, out: Outcome) -> list[Read]:
    """Reads that may have seen what the batch was to store; they are made again."""
    taken = [read for read, _ in batch.reads]
    for later in out.state.in_flight.values():
        taken += [read for read, _ in later.reads]
        later.reads = []
    return taken
