"""kafka-python as an administrator: topics, configs, partitions, records, groups."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from tests.clients.libraries import Membership, Production, ReadPartition, Untyped, quietly
from tests.clients.party import Party
from tests.clients.records import START, samples
from tests.clients.with_kafka_python import KafkaPython, errors, kafka, settings

from kohort.testing.plugin import Kohort

ConfigResource = quietly("kafka.admin").ConfigResource
OffsetSpec = quietly("kafka.admin").OffsetSpec


@pytest.fixture
def admin(kohort: Kohort) -> Iterator[Untyped]:
    made = kafka.KafkaAdminClient(**settings(kohort.bootstrap))
    yield made
    made.close()


def configs(admin: Untyped, topic: str) -> dict[str, str]:
    """What was set for a topic."""
    answer = admin.describe_configs([ConfigResource("topic", topic)])
    return {name: entry["value"] for name, entry in answer["topic"][topic].items()}


def test_creates_describes_and_deletes_a_topic(admin: Untyped, kohort: Kohort) -> None:
    topic = kohort.topic() + "-made"
    admin.create_topics({topic: {"num_partitions": 3, "configs": {"retention.ms": "60000"}}})

    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert sorted(part["partition_index"] for part in described["partitions"]) == [0, 1, 2]
    assert configs(admin, topic) == {"retention.ms": "60000"}
    (by_id,) = admin.describe_topics([UUID(described["topic_id"])])
    assert by_id["name"] == topic

    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_alters_and_resets_configs(admin: Untyped, kohort: Kohort) -> None:
    topic = kohort.topic(configs={"max.message.bytes": "2000"})

    admin.alter_configs([ConfigResource("topic", topic, {"retention.ms": "5000"})])
    assert configs(admin, topic) == {"max.message.bytes": "2000", "retention.ms": "5000"}

    admin.reset_configs([ConfigResource("topic", topic, {"retention.ms": None})])
    assert configs(admin, topic) == {"max.message.bytes": "2000"}

    admin.alter_configs([ConfigResource("topic", topic, {"segment.ms": "7000"})], incremental=False)
    assert configs(admin, topic) == {"max.message.bytes": "2000", "segment.ms": "7000"}


def test_describes_the_cluster_and_its_log_directory(admin: Untyped, kohort: Kohort) -> None:
    topic = kohort.topic()
    cluster = admin.describe_cluster()
    (logs,) = admin.describe_log_dirs([topic])

    assert [f"{node['host']}:{node['port']}" for node in cluster["brokers"]] == [kohort.bootstrap]
    assert cluster["controller_id"] == 1
    (directory,) = logs["log_dirs"]
    assert [one["name"] for one in directory["topics"]] == [topic]


def test_describes_partitions_page_by_page(admin: Untyped, kohort: Kohort) -> None:
    topic = kohort.topic(partitions=3)

    first = admin.describe_topic_partitions([topic], response_partition_limit=2)
    rest = admin.describe_topic_partitions([topic], cursor=first["next_cursor"])

    pages = [[part["partition_index"] for part in page["topics"][0]["partitions"]] for page in (first, rest)]
    assert pages == [[0, 1], [2]]


@pytest.mark.slow
def test_adds_partitions_deletes_records_and_lists_offsets(admin: Untyped, kohort: Kohort) -> None:
    topic = kohort.topic()
    admin.create_partitions({topic: 2})
    KafkaPython().produce(kohort.bootstrap, topic, samples(40, partitions=2), Production())
    one = kafka.TopicPartition(topic, 1)

    deleted = admin.delete_records({one: 5})

    assert deleted[one]["low_watermark"] == 5
    specs = {OffsetSpec.EARLIEST: 5, OffsetSpec.LATEST: 20, START + 20: 10, OffsetSpec.MAX_TIMESTAMP: 19}
    assert [admin.list_partition_offsets({one: spec})[one].offset for spec in specs] == list(specs.values())
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({topic: 1})


@pytest.mark.slow
def test_lists_describes_and_deletes_groups(admin: Untyped, kohort: Kohort) -> None:
    topic, group = kohort.topic(partitions=2), kohort.group()
    zero = kafka.TopicPartition(topic, 0)
    with Party(kohort.bootstrap) as party:
        worker = party.join(KafkaPython(), Membership(name="worker", group=group, topics=(topic,)))
        party.until_shared("worker", places=2)
        worker.commit({ReadPartition(topic, 0): 3})

        described = admin.describe_groups([group])[group]
        assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
        (member,) = described["members"]
        assert (member["client_id"], member["client_host"]) == ("worker", "/127.0.0.1")
        assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
        busy = admin.delete_group_offsets(group, [zero])
        assert busy == {zero: errors.GroupSubscribedToTopicError}

    assert group in [one["group_id"] for one in admin.list_groups(states_filter=["Empty"])]
    assert group not in [one["group_id"] for one in admin.list_groups(states_filter=["Stable"])]
    assert admin.list_group_offsets(group)[group][zero].offset == 3
    admin.alter_group_offsets(group, {zero: kafka.OffsetAndMetadata(1, "", -1)})
    assert admin.list_group_offsets(group)[group][zero].offset == 1
    assert admin.delete_group_offsets(group, [zero]) == {zero: errors.NoError}
    assert admin.list_group_offsets(group)[group] == {}
    assert admin.delete_groups([group]) == {group: "OK"}
    assert group not in [one["group_id"] for one in admin.list_groups()]
