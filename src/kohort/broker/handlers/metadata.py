"""Metadata (3): brokers, topics, partitions and their leaders; may create topics that are asked for.

v0: an empty list means all topics; v1: null means all, empty none, controller id; v2: cluster id;
v3: throttle time; v4: auto-creation can be declined; v5: offline replicas; v7: leader epochs; v8: authorized
operations; v9: flexible; v10: topic ids; v12: topics by id; v13: an error for the whole reply.
"""

import asyncio
from collections.abc import Awaitable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.context import Context, Result
from kohort.broker.heavy_work import Steps, WorkSlice
from kohort.broker.leadership import controller_id, leaders, nodes
from kohort.broker.topics import ServedTopic, TopicToCreate, offsets_topic
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import NO_TOPIC_ID
from kohort.model.topics import CONSUMER_OFFSETS, is_legal_name
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

# Bit sets of AclOperation codes: what a client may do where no authorizer is configured.
ALL_TOPIC_OPERATIONS = 3576
ALL_CLUSTER_OPERATIONS = 8096
_NOT_ASKED = -(2**31)
_TOPIC_PRICE, _PARTITION_PRICE = 5, 2
_MOST_CREATED = 1_000  # in one request; who asks for more finds the others unknown, and asks again


class _Asker(NamedTuple):
    """Who asks, and which operations the answer shows for each topic."""

    context: Context
    operations: int


def handle(broker: "BrokerState", request: MetadataRequest, context: Context) -> Result:
    if wrong := _check(request, context.version):
        return refuse(request, wrong)
    missing = _to_create(broker, request, context.version)
    if missing:
        return _create_and_answer(broker, request, context, missing)
    return broker.heavy_work.run(_answer(broker, request, context, {}))


def refuse(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or []
    ]
    return MetadataResponse(topics=topics, error_code=code)


def _check(request: MetadataRequest, version: int) -> ErrorCode | None:
    if version < 12 and any(
        topic.name is None or topic.topic_id != NO_TOPIC_ID for topic in request.topics or []
    ):
        return ErrorCode.INVALID_REQUEST
    return None


def _wants_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _to_create(broker: "BrokerState", request: MetadataRequest, version: int) -> list[str]:
    """Names that do not exist, may be created, and were asked for by name."""
    if not request.topics or not request.allow_auto_topic_creation:
        return []
    if not broker.configs.flag("auto.create.topics.enable"):
        return []
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name)
    missing = (name for name in names if is_legal_name(name) and broker.topics.get(name) is None)
    return list(islice(missing, _MOST_CREATED))


async def _create_and_answer(
    broker: "BrokerState", request: MetadataRequest, context: Context, missing: list[str]
) -> MetadataResponse:
    """Kafka creates in the background and says "unknown" at first; we finish: clients need not retry."""
    refused: dict[str, ErrorCode] = {}
    for name in missing:
        new = offsets_topic(broker.configs) if name == CONSUMER_OFFSETS else TopicToCreate(name)
        try:
            await broker.topics.create(new)
        except RefusedError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another client was faster
                refused[name] = error.code
        await asyncio.sleep(0)
    answer = broker.heavy_work.run(_answer(broker, request, context, refused))
    return await answer if isinstance(answer, Awaitable) else answer


def _answer(
    broker: "BrokerState", request: MetadataRequest, context: Context, refused: dict[str, ErrorCode]
) -> Steps[None, MetadataResponse]:
    operations = ALL_TOPIC_OPERATIONS if request.include_topic_authorized_operations else _NOT_ASKED
    asker = _Asker(context, operations)
    if _wants_all(request, context.version):
        topics = yield from _all(broker, asker)
    else:
        topics = yield from _asked_for(broker, request.topics or [], asker, refused)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes(broker, context)
        ],
        cluster_id=broker.catalog.cluster_id,
        controller_id=controller_id(broker),
        topics=topics,
        cluster_authorized_operations=(
            ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )


def _all(broker: "BrokerState", asker: _Asker) -> Steps[None, list[MetadataResponseTopic]]:
    """Every topic; those that come or go while others have their turn may be missing."""
    entries: list[MetadataResponseTopic] = []
    slice_ = WorkSlice()
    for topic in list(broker.topics):
        entries.append(_describe(broker, topic, asker))
        if slice_.is_full(_TOPIC_PRICE + _PARTITION_PRICE * topic.partitions):
            yield None
    return entries


def _asked_for(
    broker: "BrokerState", asked: list[MetadataRequestTopic], asker: _Asker, refused: dict[str, ErrorCode]
) -> Steps[None, list[MetadataResponseTopic]]:
    """One entry for each topic asked for, however often it was; errors in their place."""
    entries: dict[str | bytes, MetadataResponseTopic] = {}
    slice_ = WorkSlice()
    for wanted in asked:
        key = wanted.name if wanted.topic_id == NO_TOPIC_ID and wanted.name is not None else wanted.topic_id
        if key not in entries:
            entries[key] = _one(broker, wanted, asker, refused)
            if slice_.is_full(_TOPIC_PRICE + _PARTITION_PRICE * len(entries[key].partitions)):
                yield None
    return list(entries.values())


def _one(
    broker: "BrokerState", wanted: MetadataRequestTopic, asker: _Asker, refused: dict[str, ErrorCode]
) -> MetadataResponseTopic:
    if wanted.name is None or wanted.topic_id != NO_TOPIC_ID:  # a name beside an id counts for nothing
        topic = broker.topics.by_id(wanted.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
            )
        return _describe(broker, topic, asker)
    topic = broker.topics.get(wanted.name)
    if topic is not None:
        return _describe(broker, topic, asker)
    if not is_legal_name(wanted.name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        code = refused.get(wanted.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return MetadataResponseTopic(
        error_code=code, name=wanted.name, topic_authorized_operations=asker.operations
    )


def _describe(broker: "BrokerState", topic: ServedTopic, asker: _Asker) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=error,
                partition_index=index,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=here,
                isr_nodes=here,
            )
            for index, (error, leader, here, epoch) in enumerate(leaders(broker, topic, asker.context))
        ],
        topic_authorized_operations=asker.operations,
    )
