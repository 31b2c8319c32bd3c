"""confluent-kafka as an administrator: topics, configs, partitions, records, groups."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from tests.clients.libraries import Production, Untyped, quietly
from tests.clients.records import START, samples
from tests.clients.waiting import Deadline
from tests.clients.with_confluent import Confluent, settings

from kohort.testing.plugin import Kohort

api = quietly("confluent_kafka.admin")  # typed, but it exports less than it documents


@pytest.fixture
def admin(kohort: Kohort) -> Iterator[AdminClient]:
    with AdminClient(settings(kohort.bootstrap)) as made:
        yield made


def only(futures: "dict[Untyped, Future[Untyped]]") -> Untyped:
    """The one answer of a request about one thing."""
    (future,) = futures.values()
    return future.result(10)


def refusal(futures: "dict[Untyped, Future[Untyped]]") -> int:
    """The error code of a request that is refused."""
    with pytest.raises(KafkaException) as raised:
        only(futures)
    code: int = raised.value.args[0].code()
    return code


def config(admin: AdminClient, topic: str, name: str) -> str:
    (entry,) = [
        entry
        for entry in only(
            admin.describe_configs([api.ConfigResource(api.ResourceType.TOPIC, topic)])
        ).values()
        if entry.name == name
    ]
    value: str = entry.value
    return value


def test_creates_describes_and_deletes_a_topic(admin: AdminClient, kohort: Kohort) -> None:
    topic = kohort.topic() + "-made"
    wanted = api.NewTopic(
        topic, num_partitions=3, config={"retention.ms": "60000", "cleanup.policy": "compact"}
    )
    only(admin.create_topics([wanted]))

    described = only(admin.describe_topics(TopicCollection([topic])))
    assert [part.id for part in described.partitions] == [0, 1, 2]
    assert not described.is_internal
    assert config(admin, topic, "retention.ms") == "60000"
    assert config(admin, topic, "cleanup.policy") == "compact"

    only(admin.delete_topics([topic]))
    assert topic not in admin.list_topics(timeout=5).topics


def test_alters_single_configs_and_replaces_them_all(admin: AdminClient, kohort: Kohort) -> None:
    topic = kohort.topic(configs={"max.message.bytes": "2000"})
    one = api.ConfigEntry("retention.ms", "5000", incremental_operation=api.AlterConfigOpType.SET)
    only(
        admin.incremental_alter_configs(
            [api.ConfigResource(api.ResourceType.TOPIC, topic, incremental_configs=[one])]
        )
    )
    assert config(admin, topic, "retention.ms") == "5000"
    assert config(admin, topic, "max.message.bytes") == "2000"

    whole = api.ConfigResource(api.ResourceType.TOPIC, topic, set_config={"segment.ms": "7000"})
    with pytest.deprecated_call():
        only(admin.alter_configs([whole]))
    assert config(admin, topic, "segment.ms") == "7000"
    assert config(admin, topic, "retention.ms") == "604800000"


def test_describes_the_broker_and_the_cluster(admin: AdminClient, kohort: Kohort) -> None:
    entries = only(admin.describe_configs([api.ConfigResource(api.ResourceType.BROKER, "1")]))
    cluster = admin.describe_cluster().result(10)

    assert entries["group.initial.rebalance.delay.ms"].value == "0"
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [kohort.bootstrap]
    assert cluster.controller.id == 1


@pytest.mark.slow
def test_adds_partitions_that_a_producer_can_use(admin: AdminClient, kohort: Kohort) -> None:
    topic = kohort.topic()

    only(admin.create_partitions([api.NewPartitions(topic, 3)]))

    Confluent().produce(kohort.bootstrap, topic, samples(9, partitions=3), Production())
    assert len(Confluent().read(kohort.bootstrap, topic, 3, 9)) == 9
    assert refusal(admin.create_partitions([api.NewPartitions(topic, 2)])) == KafkaError.INVALID_PARTITIONS


@pytest.mark.slow
def test_deletes_records_and_lists_offsets(admin: AdminClient, kohort: Kohort) -> None:
    topic = kohort.topic()
    Confluent().produce(kohort.bootstrap, topic, samples(20, partitions=1), Production())
    place = TopicPartition(topic, 0)

    deleted = only(admin.delete_records([TopicPartition(topic, 0, 5)]))

    assert deleted.low_watermark == 5
    specs = {
        api.OffsetSpec.earliest(): 5,
        api.OffsetSpec.latest(): 20,
        api.OffsetSpec.for_timestamp(START + 7): 7,
        api.OffsetSpec.max_timestamp(): 19,
    }
    assert [only(admin.list_offsets({place: spec})).offset for spec in specs] == list(specs.values())


@pytest.mark.slow
def test_lists_describes_and_deletes_groups(admin: AdminClient, kohort: Kohort) -> None:
    topic, group = kohort.topic(partitions=2), kohort.group()
    consumer = Consumer(
        settings(kohort.bootstrap, group_id=group, client_id="worker", enable_auto_commit=False)
    )
    try:
        consumer.subscribe([topic])
        deadline = Deadline("an assignment")
        while len(consumer.assignment()) < 2:
            deadline.check()
            consumer.poll(0.05)
        consumer.commit(offsets=[TopicPartition(topic, 1, 7, "note")], asynchronous=False)

        described = only(admin.describe_consumer_groups([group]))
        assert described.state == ConsumerGroupState.STABLE
        (member,) = described.members
        assert (member.client_id, member.host) == ("worker", "/127.0.0.1")
        assert member.assignment.topic_partitions == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert refusal(admin.delete_consumer_groups([group])) == KafkaError.NON_EMPTY_GROUP
    finally:
        consumer.close()

    stored = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    assert [(one.partition, one.offset, one.metadata) for one in stored.topic_partitions] == [(1, 7, "note")]
    listed = {one.group_id: one for one in admin.list_consumer_groups().result(10).valid}
    assert listed[group].state == ConsumerGroupState.EMPTY
    only(admin.delete_consumer_groups([group]))
    assert group not in {one.group_id for one in admin.list_consumer_groups().result(10).valid}


@pytest.mark.slow
def test_alters_the_offsets_of_a_group_nobody_is_in(admin: AdminClient, kohort: Kohort) -> None:
    topic, group = kohort.topic(), kohort.group()

    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
    only(admin.alter_consumer_group_offsets([wanted]))

    stored = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    assert [(one.partition, one.offset) for one in stored.topic_partitions] == [(0, 3)]
