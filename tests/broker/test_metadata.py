"""Metadata: all topics or none, by name and by id, creating on demand, and what is said of each.

What Kafka answers in every version is recorded: ``tests/interop/scripts/metadata.py``.
"""

import pytest
from tests.broker.asking import BROKER, alter, create, metadata, metadata_request
from tests.broker.raw import Raw

from kohort.codec.compiled import encode
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.metadata import MetadataRequest

VERSIONS = range(14)
ALL_TOPIC_OPERATIONS = 3576


# Brokers


@pytest.mark.parametrize("version", VERSIONS)
def test_every_reply_lists_the_broker_under_its_advertised_address(
    raw: Raw, broker: Broker, version: int
) -> None:
    (only,) = metadata(raw, "t", version=version, create=True).brokers
    assert f"{only.host}:{only.port}" == broker.bootstrap
    assert only.node_id >= 0


def test_the_cluster_id_is_a_uuid_of_22_characters(raw: Raw) -> None:
    assert len(metadata(raw, version=2).cluster_id) == 22


# All and none


def test_three_bytes_too_many_after_all_topics_are_ignored(raw: Raw) -> None:
    body = encode(MetadataRequest(topics=None), 4)
    raw.send_bytes(raw.frame_of(3, 4, body + bytes(3)))
    assert raw.take().topics == []


# What is said of a topic


def test_the_offsets_topic_is_internal_and_others_are_not(raw: Raw) -> None:
    create(raw, "t")
    reply = metadata(raw, "t", "__consumer_offsets", create=True)
    assert [(topic.name, topic.is_internal) for topic in reply.topics] == [
        ("t", False),
        ("__consumer_offsets", True),
    ]


# Creating on demand


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_topic_is_created_and_ready_in_the_very_reply(raw: Raw, version: int) -> None:
    (topic,) = metadata(raw, "new", version=version, create=True).topics
    assert topic.error_code == 0
    assert [part.leader_id for part in topic.partitions] == [1]


def test_a_broker_that_does_not_create_topics_says_unknown(raw: Raw) -> None:
    alter(raw, BROKER, "", auto_create_topics_enable="false")
    (topic,) = metadata(raw, "new", create=True).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert raw.send(MetadataRequest(topics=None), 13).topics == []


def test_created_topics_get_the_default_number_of_partitions(raw: Raw) -> None:
    alter(raw, BROKER, "", num_partitions=4)
    assert len(metadata(raw, "new", create=True).topics[0].partitions) == 4


def test_a_name_that_collides_with_another_is_not_created(raw: Raw) -> None:
    create(raw, "a.b")
    (topic,) = metadata(raw, "a_b", create=True).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_two_clients_that_ask_at_once_get_one_and_the_same_topic(raw: Raw, broker: Broker) -> None:
    with Raw(broker.bootstrap) as other:
        for each in (raw, other):
            each.post(metadata_request("new", create=True), 13)
        first, second = raw.take().topics[0], other.take().topics[0]
    assert (first.error_code, second.error_code) == (0, 0)
    assert first.topic_id == second.topic_id


def test_the_offsets_topic_created_by_name_has_its_own_settings(raw: Raw) -> None:
    (topic,) = metadata(raw, "__consumer_offsets", create=True).topics
    assert len(topic.partitions) == 50


# Authorized operations


def test_operations_are_told_of_topics_that_are_not_there_too(raw: Raw) -> None:
    request = metadata_request("nowhere", "no good")
    request.include_topic_authorized_operations = True
    reply = raw.send(request, 12)
    assert [topic.topic_authorized_operations for topic in reply.topics] == [ALL_TOPIC_OPERATIONS] * 2
