"""OffsetCommit (8). Which topics there are, and so which rows the core gets, is for the caller to find."""

from collections.abc import Iterable

from kohort.groups.commands import CommitOffsets, CommitRow
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

FIRST_VERSION_WITH_IDS = 10


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


def command(
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


def response(
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
