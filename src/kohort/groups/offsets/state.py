"""Committed offsets, in masses: nested dicts of tuples, or of the bytes they were loaded from."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kohort.groups.events import OffsetRow
from kohort.model.ids import GroupId, Partition, ProducerId, TopicId, TopicName, WallTime
from kohort.records.offsets_topic import decode_commit

# A row that was committed while we ran, or the record's value as the log had it: decoded when asked for.
StoredOffset: TypeAlias = OffsetRow | bytes
PartitionKey: TypeAlias = tuple[TopicName, Partition]
OffsetAddress: TypeAlias = tuple[GroupId, TopicName, Partition]
OffsetsByTopic: TypeAlias = dict[TopicName, dict[Partition, StoredOffset]]


class TransactionalOffset(NamedTuple):
    """An offset that counts when its transaction commits, unless the log has a newer one by then."""

    log_offset: int
    stored: StoredOffset | None  # None: a newer one came, but the transaction is still open


@dataclass(slots=True)
class OffsetTable:
    """All offsets of a shard that the log has; what is still on its way to the log is not here."""

    groups: dict[GroupId, OffsetsByTopic] = field(default_factory=dict)
    open_transactions: dict[ProducerId, dict[OffsetAddress, TransactionalOffset]] = field(
        default_factory=dict
    )
    open_offsets: dict[OffsetAddress, dict[ProducerId, None]] = field(default_factory=dict)  # who has it open

    def get(self, group_id: GroupId, topic: TopicName, partition: Partition) -> OffsetRow | None:
        """The stored offset of one partition, decoded."""
        stored = self.groups.get(group_id, {}).get(topic, {}).get(partition)
        return None if stored is None else as_row(topic, partition, stored)

    def partitions(self, group_id: GroupId) -> tuple[PartitionKey, ...]:
        """What the group has stored offsets for."""
        by_topic = self.groups.get(group_id, {})
        return tuple((topic, partition) for topic, stored in by_topic.items() for partition in stored)

    def open_partitions(self, group_id: GroupId) -> tuple[PartitionKey, ...]:
        """What open transactions have written for the group."""
        return tuple((topic, partition) for group, topic, partition in self.open_offsets if group == group_id)


def as_row(topic: TopicName, partition: Partition, stored: StoredOffset) -> OffsetRow:
    """The offset as values, whichever form it is kept in."""
    if not isinstance(stored, bytes):
        return stored
    value = decode_commit(stored)
    return OffsetRow(
        topic,
        partition,
        value.offset,
        value.leader_epoch,
        value.metadata,
        WallTime(value.commit_timestamp),
        value.expire_timestamp,
        TopicId(value.topic_id),
    )
