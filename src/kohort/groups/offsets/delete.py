"""OffsetDelete, and the deletion of a topic (offsets-and-log 4 and 6)."""

from kohort.groups.append_errors import map_append_error
from kohort.groups.causes import DeletionRequested, TopicGone
from kohort.groups.commands import DeleteOffsets, TopicDeleted
from kohort.groups.events import OffsetsDeleted
from kohort.groups.group import AnyGroup
from kohort.groups.offsets.state import PartitionKey
from kohort.groups.outcome import Outcome
from kohort.groups.replies import DeletedOffset, DeleteOffsetsReply
from kohort.groups.state import State
from kohort.groups.validate import check_group_id
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId


def delete_offsets(command: DeleteOffsets, out: Outcome) -> None:
    """Delete what no member may be consuming."""
    group: AnyGroup | None = out.state.groups.get(command.group_id)
    error = check_group_id(command.group_id) or _check_group(group)
    if error:
        out.reply(command.reply_to, DeleteOffsetsReply(error=error))
        return
    assert group is not None
    rows = tuple(
        DeletedOffset(
            topic,
            partition,
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic) else ErrorCode.NONE,
        )
        for topic, partition in command.partitions
    )
    reply = DeleteOffsetsReply(rows=rows)
    known = offsets_of(out.state, command.group_id)
    gone = dict.fromkeys((row.topic, row.partition) for row in rows if not row.error)
    tombstones = tuple(key for key in gone if key in known)
    deleted = OffsetsDeleted(command.group_id, tombstones, DeletionRequested("offsets"))
    after = out.rests_on(command.group_id)
    if tombstones:
        if not out.fits(deleted):
            error = map_append_error(ErrorCode.MESSAGE_TOO_LARGE)
            out.reply(command.reply_to, DeleteOffsetsReply(error=error))
            return
        out.emit(deleted)
        after = out.position
    out.reply(command.reply_to, reply, after)


def _check_group(group: AnyGroup | None) -> ErrorCode:
    return ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete_offsets()


def offsets_of(state: State, group_id: GroupId) -> dict[PartitionKey, None]:
    """Every partition that has an offset, committed or written by an open transaction."""
    found = dict.fromkeys(state.offsets.partitions(group_id))
    found.update(dict.fromkeys(state.offsets.open_partitions(group_id)))
    return found


def delete_topic(command: TopicDeleted, out: Outcome) -> None:
    """A topic is gone: every group forgets what it had committed for it."""
    topic, table = command.topic, out.state.offsets
    out.state.topics.remove(topic)
    found: dict[GroupId, dict[PartitionKey, None]] = {
        group_id: {(topic, partition): None for partition in by_topic[topic]}
        for group_id, by_topic in table.groups.items()
        if topic in by_topic
    }
    for group_id, name, partition in table.open_offsets:
        if name == topic:
            found.setdefault(group_id, {})[(topic, partition)] = None
    out.is_atomic = False
    for group_id, keys in found.items():
        out.emit(OffsetsDeleted(group_id, tuple(keys), TopicGone(topic)))
