"""CreateTopics: what a new topic gets, what is refused, and that it can be used when the reply is there.

What Kafka answers in every version is recorded: ``tests/interop/scripts/topics.py``.
"""

import pytest
from tests.broker.asking import BROKER, alter, batch, metadata, produce
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.wire.messages.metadata import MetadataRequest

VERSIONS = range(2, 8)


def wanted(
    name: str = "t",
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def ask(raw: Raw, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> list[Reply]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1_000, validate_only=validate_only)
    reply: list[Reply] = raw.send(request, version).topics
    return reply


def refused(raw: Raw, topic: CreatableTopic) -> int:
    """The code of a topic that must not be created."""
    (result,) = ask(raw, topic)
    assert result.error_message
    assert topic.name not in existing(raw)
    code: int = result.error_code
    return code


def existing(raw: Raw) -> list[str]:
    return [topic.name for topic in raw.send(MetadataRequest(topics=None), 13).topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_can_be_used_as_soon_as_its_reply_is_there(raw: Raw, version: int) -> None:
    (result,) = ask(raw, wanted(partitions=3), version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert produce(raw, "t", batch("a"), batch("b"), batch("c")).error_code == 0
    topic = metadata(raw, "t").topics[0]
    assert len(topic.partitions) == 3
    assert result.topic_id == (topic.topic_id if version >= 7 else bytes(16))


def test_minus_one_leaves_numbers_to_the_broker(raw: Raw) -> None:
    alter(raw, BROKER, "", num_partitions=4)
    (result,) = ask(raw, wanted(partitions=-1, factor=-1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 1)


@pytest.mark.parametrize("partitions", [10_001, 2**31 - 1])
def test_more_than_ten_thousand_partitions_are_too_many(raw: Raw, partitions: int) -> None:
    assert refused(raw, wanted(partitions=partitions)) == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 32767])
def test_only_one_replica_can_be_had(raw: Raw, factor: int) -> None:
    assert refused(raw, wanted(factor=factor)) == ErrorCode.INVALID_REPLICATION_FACTOR


# Configs


def test_a_config_given_twice_is_refused(raw: Raw) -> None:
    topic = wanted(retention_ms="1")
    topic.configs.append(CreatableTopicConfig(name="retention.ms", value="2"))
    assert refused(raw, topic) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_that_quotes_something_long_still_fits_its_reply(raw: Raw, version: int) -> None:
    longest = "x" * 32_767
    topics = [wanted(longest), wanted("t")]
    topics[1].configs = [CreatableTopicConfig(name=longest, value=longest)]
    results = ask(raw, *topics, version=version)
    assert [result.error_code for result in results] == [17, 40]
    assert all(len(result.error_message) < 2_000 for result in results)


@pytest.mark.parametrize(
    ("name", "value"),
    [("cleanup.policy", "delete," * 5_000), ("leader.replication.throttled.replicas", "x" * 40_000)],
)
def test_a_value_no_old_client_could_be_shown_is_refused(raw: Raw, name: str, value: str) -> None:
    topic = wanted()
    topic.configs = [CreatableTopicConfig(name=name, value=value)]
    assert refused(raw, topic) == ErrorCode.INVALID_CONFIG


# Only validating


# Others at the same time


def test_two_clients_that_create_one_topic_at_once_make_one(raw: Raw, broker: Broker) -> None:
    request = CreateTopicsRequest(topics=[wanted()], timeout_ms=1_000)
    with Raw(broker.bootstrap) as other:
        raw.post(request, 7)
        other.post(request, 7)
        codes = {raw.take().topics[0].error_code, other.take().topics[0].error_code}
    assert codes == {0, ErrorCode.TOPIC_ALREADY_EXISTS}
    assert existing(raw) == ["t"]
