"""CreateTopics (19): one result for each topic asked for; a topic that is reported as created can be used.

v4: -1 for the broker's defaults; v5: flexible, and the reply says what the topic got; v6: throttling errors;
v7: topic ids.
"""

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.config_values import ConfigValues
from kohort.broker.configs import TOPIC_CONFIGS
from kohort.broker.context import Context
from kohort.broker.heavy_work import WorkSlice
from kohort.broker.topics import TopicToCreate
from kohort.log.catalog import new_topic_id
from kohort.model.errors import ErrorCode, RefusedError
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState

_PRICE = 200


async def handle(
    broker: "BrokerState", request: CreateTopicsRequest, _context: Context
) -> CreateTopicsResponse:
    asked = Counter(topic.name for topic in request.topics)
    results = []
    slice_ = WorkSlice()
    for topic in {topic.name: topic for topic in request.topics}.values():
        await slice_.spend(_PRICE)
        if asked[topic.name] > 1:
            results.append(_refused(topic, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            continue
        try:
            results.append(await _create(broker, topic, validate_only=request.validate_only))
        except RefusedError as error:
            results.append(_refused(topic, error.code, str(error)))
    return CreateTopicsResponse(topics=results)


def refuse(request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_refused(topic, code, code.name) for topic in request.topics])


def _refused(topic: CreatableTopic, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=code, error_message=message)


async def _create(
    broker: "BrokerState", topic: CreatableTopic, *, validate_only: bool
) -> CreatableTopicResult:
    new = _wanted(topic)
    if validate_only:
        partitions, overrides = broker.topics.check_new(new)
        topic_id: bytes = new_topic_id()  # Kafka shows one too; it will be another when it is made
    else:
        created = await broker.topics.create(new)
        partitions, overrides, topic_id = created.partitions, dict(created.configs), created.topic_id
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=_effective(broker.configs, overrides),
    )


def _wanted(topic: CreatableTopic) -> TopicToCreate:
    names = Counter(config.name for config in topic.configs)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"Config {repeated[0]} is given more than once.")
    assignment = {entry.partition_index: entry.broker_ids for entry in topic.assignments}
    if len(assignment) < len(topic.assignments):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for one partition.",
        )
    return TopicToCreate(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {config.name: config.value for config in topic.configs},
        assignment or None,
    )


def _effective(configs: ConfigValues, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
    found = ((name, configs.topic_synonyms(overrides, name)[0]) for name in TOPIC_CONFIGS)
    return [
        CreatableTopicConfigs(name=name, value=value.value, config_source=value.source)
        for name, value in found
    ]
