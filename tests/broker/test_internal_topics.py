"""What clients may do to the broker's own topics: what Kafka allows, and the log says who did it."""

import pytest
from tests.broker.asking import TOPIC, alter, batch, metadata_request, produce
from tests.broker.raw import Raw

from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

BOTH = pytest.mark.parametrize("name", ["__consumer_offsets", "__kohort_journal"])


@BOTH
def test_records_of_an_internal_topic_cannot_be_deleted(raw: Raw, name: str) -> None:
    raw.send(metadata_request(name, create=True), 13)
    cut = DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    (topic,) = raw.send(DeleteRecordsRequest(topics=[cut]), 2).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@BOTH
@pytest.mark.parametrize("client", ["anyone", "__admin_client"])
def test_no_client_writes_to_an_internal_topic(broker: Broker, name: str, client: str) -> None:
    with Raw(broker.bootstrap, client) as raw:
        raw.send(metadata_request(name, create=True), 13)
        assert produce(raw, name, batch("a")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def changes(name: str) -> list[tuple[str, Message, int]]:
    replaced = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[AlterableConfig(name="segment.bytes", value="2000000")],
    )
    grown = CreatePartitionsTopic(name=name, count=60, assignments=None)
    return [
        ("alters configs of", AlterConfigsRequest(resources=[replaced]), 2),
        ("adds partitions to", CreatePartitionsRequest(topics=[grown], timeout_ms=1_000), 3),
        ("deletes", DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1_000), 6),
    ]


@BOTH
def test_what_kafka_allows_is_done_and_logged_with_the_client(
    raw: Raw, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw.send(metadata_request(name, create=True), 13)
    for what, request, version in changes(name):
        caplog.clear()
        raw.send(request, version)
        (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert f"at 127.0.0.1 {what} the internal topic {name}: " in message


@BOTH
def test_configs_that_are_altered_one_by_one_are_logged_too(
    raw: Raw, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw.send(metadata_request(name, create=True), 13)
    alter(raw, TOPIC, name, segment_bytes=2_000_000)
    assert f"alters configs of the internal topic {name}" in caplog.text
