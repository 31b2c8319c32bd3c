"""OffsetCommit, as a member or from outside the membership."""

from collections.abc import Mapping

from kohort.client.membership.context import Context
from kohort.client.membership.state import NO_GENERATION
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def commit_request(
    context: Context, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    """The request. With manual assignment nobody's: accepted only while the group has no members."""
    is_managed = context.subscriptions.is_group_managed
    generation = context.member.generation if is_managed else NO_GENERATION
    topics: dict[TopicName, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), committed in sorted(offsets.items()):
        row = OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            committed_metadata=committed.metadata,
        )
        topics.setdefault(topic, []).append(row)
    return OffsetCommitRequest(
        group_id=context.settings.group,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=context.settings.group_instance_id if is_managed else None,
        topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )
