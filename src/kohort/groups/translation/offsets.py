"""OffsetCommit (8), OffsetFetch (9), OffsetDelete (47).

Which topics there are, and so which rows the core gets, is for the caller to find.
"""

from collections.abc import Iterable

from kohort.groups.commands import CommitOffsets, CommitRow, DeleteOffsets, FetchOffsets, FetchTopic
from kohort.groups.replies import DeleteOffsetsReply, FetchedOffset
from kohort.groups.translation import instance_id
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, MemberId, Partition, ReplyTo, TopicId, TopicName
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

FIRST_VERSION_WITH_IDS = 10  # of commits and of fetches

NamedPartition = tuple[TopicName, Partition]


def commit_row(
    name: TopicName, asked: OffsetCommitRequestTopic, part: OffsetCommitRequestPartition
) -> CommitRow:
    """A partition of the topic of this name, which is asked for by name or by id."""
    return CommitRow(
        name,
        Partition(part.partition_index),
        part.committed_offset,
        part.committed_leader_epoch,
        part.committed_metadata,
        TopicId(asked.topic_id),
    )


def commit_command(
    request: OffsetCommitRequest, version: int, rows: Iterable[CommitRow], reply_to: ReplyTo
) -> CommitOffsets:
    return CommitOffsets(
        reply_to=reply_to,
        group_id=GroupId(request.group_id),
        rows=tuple(rows),
        generation=Generation(request.generation_id_or_member_epoch),
        member_id=MemberId(request.member_id),
        instance_id=instance_id(request.group_instance_id),
        retention_ms=request.retention_time_ms,
        version=version,
    )


def commit_response(
    refused: OffsetCommitResponse, results: Iterable[tuple[CommitRow, ErrorCode]], version: int
) -> OffsetCommitResponse:
    """Refused topics first, then the coordinator's; partitions of one topic under one entry."""
    by_id = version >= FIRST_VERSION_WITH_IDS
    topics: dict[str | bytes, OffsetCommitResponseTopic] = {
        topic.topic_id if by_id else topic.name: topic for topic in refused.topics
    }
    for row, code in results:
        key: str | bytes = row.topic_id if by_id else row.topic
        entry = topics.get(key)
        if entry is None:
            entry = topics[key] = OffsetCommitResponseTopic(name=row.topic, topic_id=row.topic_id)
            refused.topics.append(entry)
        entry.partitions.append(OffsetCommitResponsePartition(partition_index=row.partition, error_code=code))
    return refused


def only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Versions before 8 ask about one group, in the request itself."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def fetch_command(
    group: OffsetFetchRequestGroup,
    topics: tuple[FetchTopic, ...] | None,
    reply_to: ReplyTo,
    *,
    require_stable: bool,
) -> FetchOffsets:
    return FetchOffsets(
        reply_to=reply_to,
        group_id=GroupId(group.group_id),
        topics=topics,
        require_stable=require_stable,
        member_id=MemberId(group.member_id) if group.member_id is not None else None,
        member_epoch=group.member_epoch,
    )


def fetched_partition(row: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=row.partition,
        committed_offset=row.offset,
        committed_leader_epoch=row.leader_epoch,
        metadata=row.metadata,
        error_code=row.error,
    )


def nothing_fetched(partition: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=-1, error_code=code)


def of_only_group(part: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """A partition as versions before 8 answer it."""
    return OffsetFetchResponsePartition(
        partition_index=part.partition_index,
        committed_offset=part.committed_offset,
        committed_leader_epoch=part.committed_leader_epoch,
        metadata=part.metadata,
        error_code=part.error_code,
    )


def nothing_fetched_of_only_group(partition: int, code: ErrorCode) -> OffsetFetchResponsePartition:
    """The same as ``nothing_fetched``, as versions before 8 answer it."""
    return OffsetFetchResponsePartition(partition_index=partition, committed_offset=-1, error_code=code)


def partitions_to_delete(request: OffsetDeleteRequest) -> list[NamedPartition]:
    return [
        (TopicName(topic.name), Partition(part.partition_index))
        for topic in request.topics
        for part in topic.partitions
    ]


def delete_command(
    request: OffsetDeleteRequest, known: Iterable[NamedPartition], reply_to: ReplyTo
) -> DeleteOffsets:
    return DeleteOffsets(reply_to=reply_to, group_id=GroupId(request.group_id), partitions=tuple(known))


def delete_response(reply: DeleteOffsetsReply, unknown: Iterable[NamedPartition]) -> OffsetDeleteResponse:
    """Partitions that do not exist first, then the coordinator's."""
    if reply.error:
        return OffsetDeleteResponse(error_code=reply.error)
    results = [(row, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for row in unknown]
    results += [((row.topic, row.partition), row.error) for row in reply.rows]
    topics: dict[TopicName, OffsetDeleteResponseTopic] = {}
    for (topic, partition), code in results:
        entry = topics.setdefault(topic, OffsetDeleteResponseTopic(name=topic))
        entry.partitions.append(OffsetDeleteResponsePartition(partition_index=partition, error_code=code))
    return OffsetDeleteResponse(topics=list(topics.values()))
