"""Metadata: all topics or none, by name and by id, creating on demand, and what is said of each."""

import pytest
from tests.broker.asking import BROKER, alter, create, metadata, metadata_request
from tests.broker.raw import Raw

from kohort.codec.compiled import encode
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

VERSIONS = range(14)
MIN = -(2**31)
ALL_TOPIC_OPERATIONS, ALL_CLUSTER_OPERATIONS = 3576, 8096


def names(reply: object) -> list[str]:
    return [topic.name for topic in reply.topics]  # type: ignore[attr-defined] # a MetadataResponse


# Brokers


@pytest.mark.parametrize("version", VERSIONS)
def test_every_reply_lists_the_broker_under_its_advertised_address(
    raw: Raw, broker: Broker, version: int
) -> None:
    (only,) = metadata(raw, "t", version=version, create=True).brokers
    assert f"{only.host}:{only.port}" == broker.bootstrap
    assert only.node_id >= 0


@pytest.mark.parametrize("version", range(1, 14))
def test_the_controller_is_a_listed_broker(raw: Raw, version: int) -> None:
    reply = metadata(raw, version=version)
    assert reply.controller_id in [each.node_id for each in reply.brokers]


def test_the_cluster_id_is_a_uuid_of_22_characters(raw: Raw) -> None:
    assert len(metadata(raw, version=2).cluster_id) == 22


def test_the_whole_reply_of_v13_carries_no_error(raw: Raw) -> None:
    assert metadata(raw, version=13).error_code == 0


# All and none


def test_an_empty_list_means_all_topics_in_v0(raw: Raw) -> None:
    create(raw, "a")
    create(raw, "b")
    assert names(raw.send(MetadataRequest(topics=[]), 0)) == ["a", "b"]


@pytest.mark.parametrize("version", range(1, 14))
def test_null_means_all_topics_from_v1_on(raw: Raw, version: int) -> None:
    create(raw, "a")
    create(raw, "b")
    assert names(raw.send(MetadataRequest(topics=None), version)) == ["a", "b"]


@pytest.mark.parametrize("version", range(1, 14))
def test_an_empty_list_means_no_topics_from_v1_on(raw: Raw, version: int) -> None:
    create(raw, "a")
    reply = raw.send(MetadataRequest(topics=[]), version)
    assert reply.topics == []
    assert reply.brokers


def test_asking_for_all_topics_creates_none_and_reports_no_errors(raw: Raw) -> None:
    reply = raw.send(MetadataRequest(topics=None, allow_auto_topic_creation=True), 13)
    assert reply.topics == []


def test_three_bytes_too_many_after_all_topics_are_ignored(raw: Raw) -> None:
    body = encode(MetadataRequest(topics=None), 4)
    raw.send_bytes(raw.frame_of(3, 4, body + bytes(3)))
    assert raw.take().topics == []


# What is said of a topic


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_described_with_all_its_partitions(raw: Raw, version: int) -> None:
    topic_id = create(raw, "t", 3)
    reply = metadata(raw, "t", version=version)
    node = reply.brokers[0].node_id
    (topic,) = reply.topics
    assert (topic.error_code, topic.name) == (0, "t")
    assert [part.partition_index for part in topic.partitions] == [0, 1, 2]
    for part in topic.partitions:
        assert (part.error_code, part.leader_id) == (0, node)
        assert (part.replica_nodes, part.isr_nodes, part.offline_replicas) == ([node], [node], [])
        assert part.leader_epoch == (0 if version >= 7 else -1)
    assert topic.topic_id == (topic_id if version >= 10 else bytes(16))


def test_the_offsets_topic_is_internal_and_others_are_not(raw: Raw) -> None:
    create(raw, "t")
    reply = metadata(raw, "t", "__consumer_offsets", create=True)
    assert [(topic.name, topic.is_internal) for topic in reply.topics] == [
        ("t", False),
        ("__consumer_offsets", True),
    ]


def test_a_topic_asked_for_twice_is_answered_once(raw: Raw) -> None:
    create(raw, "t")
    assert names(metadata(raw, "t", "t")) == ["t"]


# Topics that are not there


def test_an_unknown_name_gets_an_entry_with_an_error_and_no_partitions(raw: Raw) -> None:
    (topic,) = metadata(raw, "nowhere").topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (topic.name, topic.partitions) == ("nowhere", [])


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "x" * 250, "a/b"])
def test_an_illegal_name_fails_fast(raw: Raw, name: str) -> None:
    (topic,) = metadata(raw, name, create=True).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert topic.name == name


def test_a_bad_name_does_not_hide_the_good_ones(raw: Raw) -> None:
    create(raw, "t")
    codes = {topic.name: topic.error_code for topic in metadata(raw, "a b", "nowhere", "t").topics}
    assert codes == {
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "t": ErrorCode.NONE,
    }


# By id


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_can_be_asked_for_by_id(raw: Raw, version: int) -> None:
    topic_id = create(raw, "t")
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    (topic,) = raw.send(request, version).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "t", topic_id)


@pytest.mark.parametrize("version", [12, 13])
def test_an_unknown_id_is_echoed_without_a_name_and_never_created(raw: Raw, version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(range(16)), name=None)])
    (topic,) = raw.send(request, version).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (topic.name, topic.topic_id) == (None, bytes(range(16)))
    assert raw.send(MetadataRequest(topics=None), 13).topics == []


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", ["t", None])
def test_ids_before_v12_are_an_invalid_request(raw: Raw, version: int, name: str | None) -> None:
    topic_id = create(raw, "t")
    asked = MetadataRequestTopic(topic_id=topic_id, name=name)
    (topic,) = raw.send(MetadataRequest(topics=[asked]), version).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [10, 11])
def test_a_null_name_before_v12_is_an_invalid_request(raw: Raw, version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
    (topic,) = raw.send(request, version).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


# Creating on demand


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_topic_is_created_and_ready_in_the_very_reply(raw: Raw, version: int) -> None:
    (topic,) = metadata(raw, "new", version=version, create=True).topics
    assert topic.error_code == 0
    assert [part.leader_id for part in topic.partitions] == [1]


@pytest.mark.parametrize("version", range(4, 14))
def test_a_client_may_decline_the_creation_from_v4_on(raw: Raw, version: int) -> None:
    (topic,) = metadata(raw, "new", version=version, create=False).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(4))
def test_before_v4_nobody_can_decline(raw: Raw, version: int) -> None:
    (topic,) = raw.send(metadata_request("new", create=False), version).topics
    assert topic.error_code == 0


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


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_are_all_there_when_asked_for(raw: Raw, version: int) -> None:
    create(raw, "t")
    request = metadata_request("t")
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = version <= 10
    reply = raw.send(request, version)
    assert reply.topics[0].topic_authorized_operations == ALL_TOPIC_OPERATIONS
    assert reply.cluster_authorized_operations == (ALL_CLUSTER_OPERATIONS if version <= 10 else MIN)


def test_operations_are_told_of_topics_that_are_not_there_too(raw: Raw) -> None:
    request = metadata_request("nowhere", "no good")
    request.include_topic_authorized_operations = True
    reply = raw.send(request, 12)
    assert [topic.topic_authorized_operations for topic in reply.topics] == [ALL_TOPIC_OPERATIONS] * 2


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_are_the_smallest_number_when_not_asked_for(raw: Raw, version: int) -> None:
    create(raw, "t")
    reply = metadata(raw, "t", version=version)
    assert reply.topics[0].topic_authorized_operations == MIN
    assert reply.cluster_authorized_operations == MIN


# Identity of a topic


def test_a_topic_made_again_has_another_id(raw: Raw) -> None:
    first = create(raw, "t")
    raw.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
    second = create(raw, "t")
    assert first != second
    assert bytes(16) not in (first, second)
