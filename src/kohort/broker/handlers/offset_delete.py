"""OffsetDelete (47): forget committed offsets. Decided in ``kohort.groups.offsets.delete``."""

from typing import TYPE_CHECKING

from kohort.broker.context import Context, Result
from kohort.broker.partition_runtime import then
from kohort.groups.commands import DeleteOffsets
from kohort.groups.replies import DeleteOffsetsReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Partition, ReplyTo, TopicName
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

Row = tuple[TopicName, Partition]


def handle(broker: "Broker", request: OffsetDeleteRequest, _context: Context) -> Result:
    """The coordinator is asked even if no partition is left to delete: it may not know the group."""
    asked = [
        (TopicName(topic.name), Partition(part.partition_index))
        for topic in request.topics
        for part in topic.partitions
    ]
    known = [row for row in asked if broker.topics.has(*row)]

    def command(reply_to: ReplyTo) -> DeleteOffsets:
        return DeleteOffsets(reply_to=reply_to, group_id=GroupId(request.group_id), partitions=tuple(known))

    return then(
        broker.coordinator.ask(request.group_id, command), lambda reply: _response(reply, asked, known)
    )


def refuse(_request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)


def _response(reply: DeleteOffsetsReply, asked: list[Row], known: list[Row]) -> OffsetDeleteResponse:
    if reply.error:
        return OffsetDeleteResponse(error_code=reply.error)
    found = set(known)
    unknown = [row for row in asked if row not in found]
    results = [(row, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for row in unknown]
    results += [((row.topic, row.partition), row.error) for row in reply.rows]
    topics: dict[TopicName, OffsetDeleteResponseTopic] = {}
    for (topic, partition), code in results:
        entry = topics.setdefault(topic, OffsetDeleteResponseTopic(name=topic))
        entry.partitions.append(OffsetDeleteResponsePartition(partition_index=partition, error_code=code))
    return OffsetDeleteResponse(topics=list(topics.values()))
