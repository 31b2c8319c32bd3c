"""confluent-kafka: connect, look around, seek, find offsets by time."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from tests.clients.libraries import Got, Production
from tests.clients.records import START, samples
from tests.clients.waiting import Deadline, eventually
from tests.clients.with_confluent import Confluent, got, settings

from kohort.testing.broker import Broker
from kohort.testing.intercept import corrupt, watch
from kohort.testing.plugin import Kohort


@contextmanager
def consumer(kohort: Kohort, **more: object) -> Iterator[Consumer]:
    """A consumer that is closed when the block ends."""
    made = Consumer(settings(kohort.bootstrap, group_id=kohort.group(), enable_auto_commit=False, **more))
    try:
        yield made
    finally:
        made.close()


def take(consumer: Consumer, count: int) -> list[Got]:
    """The next ``count`` records."""
    records: list[Got] = []
    deadline = Deadline(f"{count} records")
    while len(records) < count:
        deadline.check(f"got {len(records)}")
        message = consumer.poll(0.1)
        if message is not None:
            error = message.error()
            assert error is None, error
            records.append(got(message))
    return records


def filled(kohort: Kohort, count: int = 50) -> str:
    """A topic of two partitions with ``count`` records, one millisecond apart."""
    topic = kohort.topic(partitions=2)
    Confluent().produce(kohort.bootstrap, topic, samples(count, partitions=2), Production())
    return topic


def test_connects_and_lists_brokers_and_topics(kohort: Kohort) -> None:
    topic = kohort.topic(partitions=3)
    with AdminClient(settings(kohort.bootstrap)) as admin:
        seen = admin.list_topics(timeout=5)

        assert [str(broker) for broker in seen.brokers.values()] == [f"{kohort.bootstrap}/1"]
        assert sorted(seen.topics[topic].partitions) == [0, 1, 2]
        assert {part.leader for part in seen.topics[topic].partitions.values()} == {1}
        assert seen.cluster_id == admin.cluster_id(timeout=5)


def test_a_topic_that_is_not_there_is_unknown_to_a_consumer(kohort: Kohort) -> None:
    with consumer(kohort) as reader:
        seen = reader.list_topics(kohort.topic() + "-none", timeout=5)

    (topic,) = seen.topics.values()
    assert topic.error is not None
    assert topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_headers_without_a_value_stay_without_one(kohort: Kohort) -> None:
    topic = kohort.topic()
    with Producer(settings(kohort.bootstrap)) as producer:
        producer.produce(topic, value=b"v", headers=[("a", None), ("b", b""), ("a", b"1")])
        assert producer.flush(10) == 0

    (record,) = Confluent().read(kohort.bootstrap, topic, 1, 1)

    assert record.headers == (("a", None), ("b", b""), ("a", b"1"))


@pytest.mark.slow
def test_assigns_seeks_and_reads_on_from_there(kohort: Kohort) -> None:
    topic = filled(kohort)
    with consumer(kohort) as reader:
        reader.assign([TopicPartition(topic, 1, 0)])
        assert [record.offset for record in take(reader, 3)] == [0, 1, 2]

        reader.seek(TopicPartition(topic, 1, 20))
        assert [record.offset for record in take(reader, 5)] == [20, 21, 22, 23, 24]
        assert reader.position([TopicPartition(topic, 1)])[0].offset == 25


@pytest.mark.slow
def test_finds_offsets_by_time_and_the_ends_of_a_partition(kohort: Kohort) -> None:
    topic = filled(kohort)  # partition 1 has the odd milliseconds 1, 3, … 49
    with consumer(kohort) as reader:
        asked = [TopicPartition(topic, 1, START + when) for when in (0, 10, 49)]
        found = [reader.offsets_for_times([one], timeout=5)[0].offset for one in asked]
        beyond = reader.offsets_for_times([TopicPartition(topic, 1, START + 50)], timeout=5)[0].offset

        assert found == [0, 5, 24]
        assert beyond == OFFSET_END
        assert reader.get_watermark_offsets(TopicPartition(topic, 1), timeout=5) == (0, 25)


@pytest.mark.slow
def test_reaches_the_end_and_sees_what_comes_later(kohort: Kohort) -> None:
    topic = filled(kohort, 4)
    with consumer(kohort, enable_partition_eof=True) as reader:
        reader.assign([TopicPartition(topic, 0, 2)])
        deadline = Deadline("the end of the partition")
        while (message := reader.poll(0.1)) is None:
            deadline.check()
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._PARTITION_EOF

        Confluent().produce(kohort.bootstrap, topic, samples(2, partitions=2), Production())
        assert [record.offset for record in take(reader, 1)] == [2]


@pytest.mark.slow
def test_an_offset_that_is_gone_is_reset_to_the_earliest(kohort: Kohort) -> None:
    topic = filled(kohort)
    with consumer(kohort, auto_offset_reset="earliest") as reader:
        reader.assign([TopicPartition(topic, 0, 1_000)])

        assert [record.offset for record in take(reader, 2)] == [0, 1]


@pytest.mark.slow
def test_an_idle_consumer_understands_every_empty_reply(kohort: Kohort) -> None:
    # The fixture protocol_errors looks at what librdkafka logs.
    topic = filled(kohort, 2)
    polls = kohort.broker.intercept(watch, api="Fetch", client="idle")
    with consumer(kohort, client_id="idle", fetch_wait_max_ms=100) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        take(reader, 1)
        busy = len(polls.seen)

        eventually("five empty replies", lambda: reader.poll(0.1) is None and len(polls.seen) > busy + 5)
    kohort.broker.stop_intercepting()


@pytest.mark.slow
def test_a_reply_that_cannot_be_read_does_not_go_unnoticed(
    kohort: Kohort, protocol_errors: list[str]
) -> None:
    # Every test here relies on this: librdkafka itself would only ask again.
    topic = filled(kohort, 2)
    kohort.broker.intercept(corrupt(lambda body: body[:20]), api="Fetch", client="misled", times=1)
    with consumer(kohort, client_id="misled") as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        take(reader, 1)
    kohort.broker.stop_intercepting()

    assert any("buffer underflow for Fetch" in line for line in protocol_errors)
    protocol_errors.clear()


def test_a_transactional_producer_is_told_at_once_and_for_good(kohort: Kohort) -> None:
    producer = Producer(settings(kohort.bootstrap, transactional_id="t"))
    with pytest.raises(KafkaException, match="transactions and share groups are not served") as refused:
        producer.init_transactions(60)
    assert refused.value.args[0].fatal()


def test_a_share_consumer_is_told_at_once_and_for_good(kohort: Kohort) -> None:
    made = ShareConsumer(settings(kohort.bootstrap, group_id=kohort.group()))
    made.subscribe([kohort.topic()])
    with pytest.raises(KafkaException, match="API version not supported") as refused:
        made.poll(60)
    assert refused.value.args[0].fatal()
    made.close()


def test_a_consumer_of_the_new_protocol_is_told_at_once_and_for_good_where_it_is_off() -> None:
    with Broker(configs={"group.coordinator.rebalance.protocols": "classic"}) as broker:
        made = Consumer(settings(broker.bootstrap, group_id="g", group_protocol="consumer"))
        made.subscribe(["t"])
        deadline = Deadline("the refusal")
        while (message := made.poll(0.1)) is None:
            deadline.check()
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._FATAL
    assert "API version not supported" in error.str()
    made.close()
