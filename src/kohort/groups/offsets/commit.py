"""OffsetCommit: who may commit, and what is stored (offsets-and-log 2)."""

from kohort.groups.append_errors import map_append_error
from kohort.groups.causes import CommitReceived
from kohort.groups.commands import CommitOffsets
from kohort.groups.encoding import is_storable
from kohort.groups.events import GroupCreated, OffsetRow, OffsetsCommitted
from kohort.groups.group import AnyGroup
from kohort.groups.outcome import Outcome
from kohort.groups.replies import CommitReply, CommittedRow
from kohort.groups.sessions import arm_session
from kohort.model.errors import ErrorCode
from kohort.primitives.strings import utf16_length

_NONE = ErrorCode.NONE
_LATEST = 2**63 - 1  # what a timestamp can say


def commit_offsets(command: CommitOffsets, out: Outcome) -> None:
    """Store the offsets of a request, or refuse all of them, or those with too much metadata."""
    group: AnyGroup | None = out.state.groups.get(command.group_id)
    error = _check_missing(command) if group is None else group.check_commit(command)
    if error:
        out.reply(command.reply_to, refuse_commit(command, error))
        return
    cause = CommitReceived(command.member_id, command.generation, len(command.rows))
    accepted, reply = _sort_out(command, out)
    committed = OffsetsCommitted(command.group_id, accepted, cause)
    if accepted and not out.fits(committed):
        error = map_append_error(ErrorCode.MESSAGE_TOO_LARGE)
        out.reply(command.reply_to, _refuse_accepted(reply, error))
        return
    if group is None:
        # A simple group: known by its offsets alone, nothing but them is written.
        out.emit(GroupCreated(command.group_id, out.now.wall, cause))
    else:
        timeout = group.session_kept_by_commit(command.member_id)
        if timeout is not None:
            arm_session(out.state, group.group_id, command.member_id, timeout, out.now.instant)
    if accepted:
        out.emit(committed)
    out.reply(command.reply_to, reply, out.position)


def _refuse_accepted(reply: CommitReply, error: ErrorCode) -> CommitReply:
    return CommitReply(rows=tuple(row if row.error else row._replace(error=error) for row in reply.rows))


def refuse_commit(command: CommitOffsets, error: ErrorCode) -> CommitReply:
    """The API has no error for the whole: it is repeated on every partition."""
    return CommitReply(rows=tuple(CommittedRow(row.topic, row.partition, error) for row in command.rows))


def _check_missing(command: CommitOffsets) -> ErrorCode:
    if not is_storable(command.group_id):
        return ErrorCode.INVALID_GROUP_ID
    if command.generation < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if command.version >= 9 else ErrorCode.ILLEGAL_GENERATION


def _sort_out(command: CommitOffsets, out: Outcome) -> tuple[tuple[OffsetRow, ...], CommitReply]:
    """What is to be stored, and what the answer says if it is."""
    now = out.now.wall
    # Kafka's sum overflows into the past; who asks for the longest retention wants the offsets to stay.
    expires = min(now + command.retention_ms, _LATEST) if command.retention_ms != -1 else -1
    longest = out.state.settings.offset_metadata_max_bytes
    accepted: list[OffsetRow] = []
    answers: list[CommittedRow] = []
    for topic, partition, offset, leader_epoch, metadata, topic_id in command.rows:
        error = _NONE
        if metadata and (utf16_length(metadata) > longest or not is_storable(metadata)):
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            row = OffsetRow(topic, partition, offset, leader_epoch, metadata or "", now, expires, topic_id)
            accepted.append(row)
        answers.append(CommittedRow(topic, partition, error))
    return tuple(accepted), CommitReply(rows=tuple(answers))
