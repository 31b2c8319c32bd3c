"""OffsetCommit and OffsetFetch, made and read: for members of a group and for administration. No I/O."""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from kohort.client.arguments import by_topic
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

OFFSETS_BY_NAME = 9
"""The last version of both that names topics; from 10 on they are ids, which a deleted topic has none of."""

FetchedRow = OffsetFetchResponsePartition | OffsetFetchResponsePartitions


class OffsetToCommit(Protocol):
    """The next offset to read, the epoch of the last one, a note."""

    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def metadata(self) -> str: ...


def offset_commit_request(
    group_id: str, offsets: Mapping[TopicPartition, OffsetToCommit]
) -> OffsetCommitRequest:
    """A commit from outside the membership: accepted only while the group has no members."""
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        committed_metadata=committed.metadata,
                    )
                    for number in numbers
                    for committed in [offsets[TopicPartition(topic, number)]]
                ],
            )
            for topic, numbers in by_topic(sorted(offsets)).items()
        ],
    )


def offset_fetch_request(
    group_id: str, partitions: Collection[TopicPartition] | None, *, require_stable: bool
) -> OffsetFetchRequest:
    """Filled for all versions: one group up to 7, a list of groups from 8 on. None means all partitions.

    ``require_stable``: not what a transaction may yet take back (KIP-447).
    """
    single = many = None
    if partitions is not None:
        rows = {topic: [int(number) for number in found] for topic, found in by_topic(partitions).items()}
        single = [OffsetFetchRequestTopic(name=each, partition_indexes=rows[each]) for each in rows]
        many = [OffsetFetchRequestTopics(name=each, partition_indexes=rows[each]) for each in rows]
    return OffsetFetchRequest(
        group_id=group_id,
        topics=single,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=many)],
        require_stable=require_stable,
    )


def fetched_code(response: OffsetFetchResponse) -> int:
    """The error code of the one group that was asked for."""
    return response.groups[0].error_code if response.groups else response.error_code


def fetched_rows(response: OffsetFetchResponse) -> Iterator[tuple[TopicPartition, FetchedRow]]:
    """The partitions of either shape of the response; from version 8 on they are in a group."""
    for group in response.groups:
        for topic in group.topics:
            for row in topic.partitions:
                yield TopicPartition(TopicName(topic.name), Partition(row.partition_index)), row
    for old in response.topics:
        for old_row in old.partitions:
            yield TopicPartition(TopicName(old.name), Partition(old_row.partition_index)), old_row
