"""OffsetDelete, and the deletion of a topic (offsets-and-log 4 and 6)."""

from kohort.groups.causes import DeletionRequested, TopicGone
from kohort.groups.classic.state import CONSUMER, Group
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import DeleteOffsets, TopicDeleted
from kohort.groups.events import OffsetsCommitted, OffsetsDeleted
from kohort.groups.offsets.state import PartitionKey
from kohort.groups.outcome import Outcome
from kohort.groups.replies import DeletedOffset, DeleteOffsetsReply
from kohort.groups.state import State
from kohort.groups.validate import check_group_id
from kohort.groups.writes import DeleteOffsetsWrite
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId


def delete_offsets(command: DeleteOffsets, out: Outcome) -> None:
    """Delete what no member may be consuming."""
    group = out.state.groups.get(command.group_id)
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
    if tombstones:
        out.store(OffsetsDeleted(command.group_id, tombstones, DeletionRequested("offsets")))
        out.when_stored(DeleteOffsetsWrite(reply_to=command.reply_to, reply=reply))
    else:
        out.reply(command.reply_to, reply)


def _check_group(group: Group | None) -> ErrorCode:
    if group is None or group.phase is Phase.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.phase is not Phase.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP  # nobody but its members knows what it consumes
    return ErrorCode.NONE


def offsets_of(state: State, group_id: GroupId) -> dict[PartitionKey, None]:
    """Every partition the log has, or is about to have, an offset for: stored, open, on its way."""
    found = dict.fromkeys(state.offsets.partitions(group_id))
    found.update(dict.fromkeys(state.offsets.open_partitions(group_id)))
    found.update(dict.fromkeys(commits_in_flight(state).get(group_id, ())))
    return found


def commits_in_flight(state: State) -> dict[GroupId, dict[PartitionKey, None]]:
    """Partitions whose commit is on its way to the log, by group."""
    found: dict[GroupId, dict[PartitionKey, None]] = {}
    for batch in state.in_flight.values():
        for event in batch.events:
            if isinstance(event, OffsetsCommitted):
                keys = ((row.topic, row.partition) for row in event.rows)
                found.setdefault(event.group_id, {}).update(dict.fromkeys(keys))
    return found


def delete_topic(command: TopicDeleted, out: Outcome) -> None:
    """A topic is gone: every group forgets what it had committed for it."""
    topic, table = command.topic, out.state.offsets
    found: dict[GroupId, dict[PartitionKey, None]] = {
        group_id: {(topic, partition): None for partition in by_topic[topic]}
        for group_id, by_topic in table.groups.items()
        if topic in by_topic
    }
    for group_id, name, partition in table.open_offsets:
        if name == topic:
            found.setdefault(group_id, {})[(topic, partition)] = None
    for group_id, keys in commits_in_flight(out.state).items():
        for key in keys:
            if key[0] == topic:
                found.setdefault(group_id, {})[key] = None
    for group_id, keys in found.items():
        out.store(OffsetsDeleted(group_id, tuple(keys), TopicGone(topic)))
