"""DescribeTopicPartitions (75): topics page by page, at most 2,000 partitions in a reply."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.handlers.metadata import ALL_TOPIC_OPERATIONS
from kohort.broker.leadership import leaders
from kohort.broker.topics import ServedTopic
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.topics import is_legal_name
from kohort.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

MAX_PARTITIONS = 2_000


def handle(
    broker: "BrokerState", request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    budget = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    for name, shown_from in _from_cursor(broker, request):
        topic = broker.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        first = min(shown_from, topic.partitions)  # a cursor from before the topic was made again
        last = min(topic.partitions, first + budget)
        if budget > 0:
            response.topics.append(_describe(broker, topic, context, range(first, last)))
        if last < topic.partitions or budget == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=last)
            break
        budget -= last - first
    return response


def refuse(request: DescribeTopicPartitionsRequest, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in request.topics
        ]
    )


def _from_cursor(broker: "BrokerState", request: DescribeTopicPartitionsRequest) -> Iterator[tuple[str, int]]:
    """Names in order, each with the first partition to show."""
    names = sorted({topic.name for topic in request.topics}) or [topic.name for topic in broker.topics]
    cursor = request.cursor
    if cursor is None:
        yield from ((name, 0) for name in names)
        return
    if cursor.partition_index < 0:
        raise RefusedError(ErrorCode.INVALID_REQUEST)
    if request.topics and cursor.topic_name not in names:
        raise RefusedError(ErrorCode.INVALID_REQUEST)
    for name in names:
        if name >= cursor.topic_name:
            yield name, cursor.partition_index if name == cursor.topic_name else 0


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=ALL_TOPIC_OPERATIONS
    )


def _describe(
    broker: "BrokerState", topic: ServedTopic, context: Context, partitions: range
) -> DescribeTopicPartitionsResponseTopic:
    found = list(leaders(broker, topic, context, partitions))
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=error,
                partition_index=index,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=here,
                isr_nodes=here,
                eligible_leader_replicas=[],  # null would be legal, but breaks the Java Admin
                last_known_elr=[],
            )
            for index, (error, leader, here, epoch) in zip(partitions, found, strict=True)
        ],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )
