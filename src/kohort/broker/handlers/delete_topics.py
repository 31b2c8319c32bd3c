"""DeleteTopics (20): by name, or (v6) by id. v4: flexible; v5: error messages."""

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.notices import warn_internal
from kohort.broker.topics import ServedTopic
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE = 10


async def handle(
    broker: "BrokerState", request: DeleteTopicsRequest, context: Context
) -> DeleteTopicsResponse:
    if not broker.configs.flag("delete.topic.enable"):
        return refuse(request, ErrorCode.TOPIC_DELETION_DISABLED)
    wanted, repeated = _sort_out(broker, _wanted(request))
    slice_ = WorkSlice()
    for topic in wanted:
        repeated.append(await _delete(broker, topic, context))
        await slice_.spend(_PRICE)
    return DeleteTopicsResponse(responses=repeated)


def refuse(request: DeleteTopicsRequest, code: ErrorCode) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_refused(wanted, code) for wanted in _wanted(request)])


def _wanted(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return request.topics + [DeleteTopicState(name=name) for name in request.topic_names]


def _sort_out(
    broker: "BrokerState", asked: list[DeleteTopicState]
) -> tuple[list[DeleteTopicState], list[DeletableTopicResult]]:
    """A topic that is named twice, or by name and by id, is not deleted, and refused once."""
    names = Counter(topic.name for topic in asked if topic.name is not None)
    ids = Counter(topic.topic_id for topic in asked if topic.name is None)
    kept: list[DeleteTopicState] = []
    repeated: dict[str | bytes, DeletableTopicResult] = {}
    for topic in asked:
        served = broker.topics.by_id(topic.topic_id) if topic.name is None else broker.topics.get(topic.name)
        both = served is not None and names[served.name] and ids[served.topic_id]
        if both and served is not None:
            entry = DeleteTopicState(name=served.name, topic_id=served.topic_id)
            repeated[served.name] = _refused(entry, ErrorCode.INVALID_REQUEST, "Named by name and by id.")
        elif topic.name is not None and names[topic.name] > 1:
            entry = DeleteTopicState(name=topic.name)
            repeated[topic.name] = _refused(entry, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif topic.name is None and topic.topic_id != NO_TOPIC_ID and ids[topic.topic_id] > 1:
            repeated[topic.topic_id] = _refused(topic, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        else:
            kept.append(topic)
    return kept, list(repeated.values())


def _refused(wanted: DeleteTopicState, code: ErrorCode, message: str | None = None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name, topic_id=wanted.topic_id, error_code=code, error_message=message or code.name
    )


def _find(broker: "BrokerState", wanted: DeleteTopicState) -> ServedTopic:
    if wanted.name is not None and wanted.topic_id != NO_TOPIC_ID:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if wanted.name is None and wanted.topic_id == NO_TOPIC_ID:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if wanted.name is None:
        topic = broker.topics.by_id(wanted.topic_id)
        code, text = ErrorCode.UNKNOWN_TOPIC_ID, "No topic has this id."
    else:
        topic = broker.topics.get(wanted.name)
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist."
    if topic is None:
        raise RefusedError(code, text)
    return topic


async def _delete(broker: "BrokerState", wanted: DeleteTopicState, context: Context) -> DeletableTopicResult:
    try:
        topic = _find(broker, wanted)
        warn_internal(context, topic.name, "deletes")
        await broker.topics.delete(topic)
    except RefusedError as error:
        return _refused(wanted, error.code, str(error))
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
