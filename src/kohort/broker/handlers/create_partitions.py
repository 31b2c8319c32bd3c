"""CreatePartitions (37): raise the number of partitions of topics. v2: flexible; v3: throttling errors."""

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.notices import warn_internal
from kohort.broker.topics import MAX_PARTITIONS, ServedTopic
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import NodeId
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE = 20


async def handle(
    broker: "BrokerState", request: CreatePartitionsRequest, context: Context
) -> CreatePartitionsResponse:
    asked = Counter(topic.name for topic in request.topics)
    results = []
    slice_ = WorkSlice()
    for wanted in {topic.name: topic for topic in request.topics}.values():
        await slice_.spend(_PRICE)
        try:
            if asked[wanted.name] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = _check(broker, wanted)
            if not request.validate_only:
                warn_internal(context, topic.name, "adds partitions to")
                nodes = [NodeId(each.broker_ids[0]) for each in wanted.assignments or ()]
                await broker.topics.add_partitions(topic, wanted.count, nodes)
            results.append(CreatePartitionsTopicResult(name=wanted.name))
        except RefusedError as error:
            results.append(
                CreatePartitionsTopicResult(name=wanted.name, error_code=error.code, error_message=str(error))
            )
    return CreatePartitionsResponse(results=results)


def refuse(request: CreatePartitionsRequest, code: ErrorCode) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=code.name)
            for topic in request.topics
        ]
    )


def _check(broker: "BrokerState", wanted: CreatePartitionsTopic) -> ServedTopic:
    topic = broker.topics.get(wanted.name)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
    now = topic.partitions
    if wanted.count == now:
        raise RefusedError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if wanted.count < now:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {now} partition(s);"
            f" {wanted.count} would not be an increase.",
        )
    if wanted.count > MAX_PARTITIONS:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS, f"Number of partitions must be at most {MAX_PARTITIONS}."
        )
    assignments = wanted.assignments
    if assignments is not None:
        if len(assignments) != wanted.count - now:
            raise RefusedError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {wanted.count - now} additional partition(s), but only"
                f" {len(assignments)} assignment(s) were specified.",
            )
        broker.topics.check_replicas(each.broker_ids for each in assignments)
    return topic
