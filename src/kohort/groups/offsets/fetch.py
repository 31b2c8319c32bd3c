"""OffsetFetch: what the log has. A commit that may yet vanish is never shown (offsets-and-log 3)."""

from collections.abc import Iterator, Sequence
from typing import overload

from kohort.groups.commands import FetchOffsets, FetchTopic
from kohort.groups.group import AnyGroup
from kohort.groups.offsets.state import OffsetsByTopic, OffsetTable, as_row
from kohort.groups.outcome import Outcome
from kohort.groups.replies import FetchedOffset, FetchReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, Partition, TopicId


def fetch_offsets(command: FetchOffsets, out: Outcome) -> None:
    """Answer when everything that the answer shows is stored.

    A group that does not exist is not an error.
    """
    group: AnyGroup | None = out.state.groups.get(command.group_id)
    error = ErrorCode.NONE if group is None else group.check_fetch(command)
    if error:
        out.reply(command.reply_to, FetchReply(error=error))
        return
    table = out.state.offsets
    rows: Sequence[FetchedOffset] = (
        AllOffsets(table.groups.get(command.group_id, {}))
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
    """Whether the topic was deleted and made again since; without ids that is unknown."""
    return NO_TOPIC_ID not in (stored, asked) and stored != asked


class AllOffsets(Sequence[FetchedOffset]):
    """Everything that a group had stored at one moment. Rows are made while they are read.

    The copy of the tables is the only part that must be made in one step, and takes a tenth of the time of
    the rows. What the tables hold never changes.
    """

    def __init__(self, by_topic: OffsetsByTopic) -> None:
        self._by_topic = {topic: by_partition.copy() for topic, by_partition in by_topic.items()}

    def __iter__(self) -> Iterator[FetchedOffset]:
        for topic, by_partition in self._by_topic.items():
            for partition, stored in by_partition.items():
                row = as_row(topic, partition, stored)
                yield FetchedOffset(topic, partition, row.offset, row.leader_epoch, row.metadata)

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    @overload
    def __getitem__(self, index: int) -> FetchedOffset: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[FetchedOffset]: ...
    def __getitem__(self, index: int | slice) -> FetchedOffset | Sequence[FetchedOffset]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]
