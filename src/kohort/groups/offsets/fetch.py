"""OffsetFetch: what the log has. A commit that may yet vanish is never shown (offsets-and-log 3)."""

from kohort.groups.commands import FetchOffsets, FetchTopic
from kohort.groups.offsets.state import OffsetTable, as_row
from kohort.groups.outcome import Outcome
from kohort.groups.replies import FetchedOffset, FetchReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, GroupId, Partition, TopicId


def fetch_offsets(command: FetchOffsets, out: Outcome) -> None:
    """Answer when everything that the answer shows is stored.

    No phase and no membership is looked at, and a group that does not exist is not an error.
    """
    table = out.state.offsets
    rows = (
        _everything(command.group_id, table)
        if command.topics is None
        else tuple(
            _one(command, topic, partition, table)
            for topic in command.topics
            for partition in topic.partitions
        )
    )
    out.reply(command.reply_to, FetchReply(rows=rows), out.rests_on(command.group_id))


def _one(command: FetchOffsets, asked: FetchTopic, partition: Partition, table: OffsetTable) -> FetchedOffset:
    topic = asked.topic
    if command.require_stable and (command.group_id, topic, partition) in table.open_offsets:
        return FetchedOffset(topic, partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    row = table.get(command.group_id, topic, partition)
    if row is None or _is_of_another_topic(row.topic_id, asked.topic_id):
        return FetchedOffset(topic, partition)
    return FetchedOffset(topic, partition, row.offset, row.leader_epoch, row.metadata)


def _is_of_another_topic(stored: TopicId, asked: TopicId) -> bool:
    """Whether the topic was deleted and made again since; without ids that cannot be told."""
    return NO_TOPIC_ID not in (stored, asked) and stored != asked


def _everything(group_id: GroupId, table: OffsetTable) -> tuple[FetchedOffset, ...]:
    rows = (
        as_row(topic, partition, stored)
        for topic, by_partition in table.groups.get(group_id, {}).items()
        for partition, stored in by_partition.items()
    )
    return tuple(
        FetchedOffset(row.topic, row.partition, row.offset, row.leader_epoch, row.metadata) for row in rows
    )
