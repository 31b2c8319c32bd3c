"""kafka-python: connect, look around, seek, find offsets by time."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.clients.libraries import Got, Production, Untyped
from tests.clients.records import START, samples
from tests.clients.waiting import Deadline
from tests.clients.with_kafka_python import KafkaPython, errors, got, kafka, settings

from kohort.testing.plugin import Kohort


@contextmanager
def consumer(kohort: Kohort, **more: object) -> Iterator[Untyped]:
    """A consumer that is closed when the block ends."""
    made = kafka.KafkaConsumer(
        **settings(kohort.bootstrap, group_id=kohort.group(), enable_auto_commit=False, **more)
    )
    try:
        yield made
    finally:
        made.close()


def take(consumer: Untyped, count: int) -> list[Got]:
    """The next ``count`` records."""
    records: list[Got] = []
    deadline = Deadline(f"{count} records")
    while len(records) < count:
        deadline.check(f"got {len(records)}")
        for some in consumer.poll(timeout_ms=10_000, max_records=count - len(records)).values():
            records += map(got, some)
    return records


def filled(kohort: Kohort, count: int = 50) -> str:
    """A topic of two partitions with ``count`` records, one millisecond apart."""
    topic = kohort.topic(partitions=2)
    KafkaPython().produce(kohort.bootstrap, topic, samples(count, partitions=2), Production())
    return topic


def test_connects_and_lists_topics_and_partitions(kohort: Kohort) -> None:
    topic = kohort.topic(partitions=3)
    with consumer(kohort) as reader:
        assert topic in reader.topics()
        assert reader.partitions_for_topic(topic) == {0, 1, 2}


def test_takes_the_broker_for_a_current_kafka(kohort: Kohort) -> None:
    # It derives a version from single APIs it finds; the version decides what it dares to use.
    with consumer(kohort) as reader:
        assert reader.config["api_version"] >= (4, 0)


@pytest.mark.slow
def test_the_default_producer_is_idempotent_and_gets_offsets(kohort: Kohort) -> None:
    topic = kohort.topic()
    producer = kafka.KafkaProducer(bootstrap_servers=kohort.bootstrap)
    try:
        assert producer.config["enable_idempotence"]
        sent = [producer.send(topic, value=b"%d" % number) for number in range(20)]
        assert [future.get(timeout=10).offset for future in sent] == list(range(20))
    finally:
        producer.close()


@pytest.mark.slow
def test_a_record_larger_than_the_topic_allows_is_refused_and_the_next_is_not(kohort: Kohort) -> None:
    topic = kohort.topic(configs={"max.message.bytes": "1000"})
    # An idempotent producer of this library gives up for good after such an error.
    producer = kafka.KafkaProducer(bootstrap_servers=kohort.bootstrap, enable_idempotence=False)
    try:
        with pytest.raises(errors.MessageSizeTooLargeError):
            producer.send(topic, value=b"x" * 5_000).get(timeout=10)
        assert producer.send(topic, value=b"x").get(timeout=10).offset == 0
    finally:
        producer.close()


@pytest.mark.slow
def test_assigns_seeks_and_reads_on_from_there(kohort: Kohort) -> None:
    topic = filled(kohort)
    one = kafka.TopicPartition(topic, 1)
    with consumer(kohort, auto_offset_reset="earliest") as reader:
        reader.assign([one])
        assert [record.offset for record in take(reader, 3)] == [0, 1, 2]

        reader.seek(one, 20)
        assert [record.offset for record in take(reader, 5)] == [20, 21, 22, 23, 24]
        assert reader.position(one, timeout_ms=5_000) == 25

        reader.seek_to_beginning(one)
        assert [record.offset for record in take(reader, 1)] == [0]


@pytest.mark.slow
def test_finds_offsets_by_time_and_the_ends_of_a_partition(kohort: Kohort) -> None:
    topic = filled(kohort)  # partition 1 has the odd milliseconds 1, 3, … 49
    one = kafka.TopicPartition(topic, 1)
    with consumer(kohort) as reader:
        found = [reader.offsets_for_times({one: START + when})[one] for when in (0, 10, 49)]

        assert [(answer.offset, answer.timestamp - START) for answer in found] == [(0, 1), (5, 11), (24, 49)]
        assert reader.offsets_for_times({one: START + 50})[one] is None
        assert reader.beginning_offsets([one]) == {one: 0}
        assert reader.end_offsets([one]) == {one: 25}


@pytest.mark.slow
def test_sees_records_that_come_while_it_waits_in_a_fetch_session(kohort: Kohort) -> None:
    topic = filled(kohort, 4)
    both = [kafka.TopicPartition(topic, number) for number in range(2)]
    with consumer(kohort, auto_offset_reset="latest") as reader:
        reader.assign(both)
        assert [reader.position(one, timeout_ms=5_000) for one in both] == [2, 2]
        assert reader.poll(timeout_ms=100) == {}

        KafkaPython().produce(kohort.bootstrap, topic, samples(4, partitions=2), Production())
        assert sorted((record.place.partition, record.offset) for record in take(reader, 4)) == [
            (0, 2),
            (0, 3),
            (1, 2),
            (1, 3),
        ]
