"""aiokafka: connect, look around, seek, find offsets by time."""

import asyncio

import pytest
from tests.clients.libraries import Got, Library, Production, Untyped
from tests.clients.records import START, samples
from tests.clients.waiting import Deadline
from tests.clients.with_aiokafka import aiokafka, got

from kohort.testing.plugin import Kohort


def consumer(kohort: Kohort, **more: object) -> Untyped:
    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=kohort.bootstrap,
        group_id=kohort.group(),
        enable_auto_commit=False,
        retry_backoff_ms=20,
        **more,
    )


async def take(consumer: Untyped, count: int) -> list[Got]:
    """The next ``count`` records."""
    records: list[Got] = []
    deadline = Deadline(f"{count} records")
    while len(records) < count:
        deadline.check(f"got {len(records)}")
        batches = await consumer.getmany(timeout_ms=100, max_records=count - len(records))
        for some in batches.values():
            records += map(got, some)
    return records


@pytest.fixture
def filled(kohort: Kohort, libraries: dict[str, Library]) -> str:
    """A topic of two partitions with 50 records, one millisecond apart."""
    topic = kohort.topic(partitions=2)
    libraries["aiokafka"].produce(kohort.bootstrap, topic, samples(50, partitions=2), Production())
    return topic


def test_connects_and_lists_topics_and_partitions(kohort: Kohort) -> None:
    async def look() -> tuple[set[str], set[int]]:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=kohort.bootstrap) as producer:
            partitions = await producer.partitions_for(topic)
        async with consumer(kohort) as reader:
            return set(await reader.topics()), set(partitions)

    topic = kohort.topic(partitions=3)
    topics, partitions = asyncio.run(look())

    assert topic in topics
    assert partitions == {0, 1, 2}


@pytest.mark.slow
def test_assigns_seeks_and_reads_on_from_there(kohort: Kohort, filled: str) -> None:
    async def read() -> None:
        async with consumer(kohort, auto_offset_reset="earliest") as reader:
            reader.assign([one])
            assert [record.offset for record in await take(reader, 3)] == [0, 1, 2]

            reader.seek(one, 20)
            assert [record.offset for record in await take(reader, 5)] == [20, 21, 22, 23, 24]
            assert await reader.position(one) == 25

            await reader.seek_to_beginning(one)
            assert [record.offset for record in await take(reader, 1)] == [0]

    one = aiokafka.TopicPartition(filled, 1)
    asyncio.run(read())


@pytest.mark.slow
def test_finds_offsets_by_time_and_the_ends_of_a_partition(kohort: Kohort, filled: str) -> None:
    async def look() -> None:
        async with consumer(kohort) as reader:
            found = [(await reader.offsets_for_times({one: START + when}))[one] for when in (0, 10, 49)]
            later = await reader.offsets_for_times({one: START + 50})

            # Partition 1 has the odd milliseconds 1, 3, … 49.
            assert [(answer.offset, answer.timestamp - START) for answer in found] == [
                (0, 1),
                (5, 11),
                (24, 49),
            ]
            assert later[one] is None
            assert await reader.beginning_offsets([one]) == {one: 0}
            assert await reader.end_offsets([one]) == {one: 25}

    one = aiokafka.TopicPartition(filled, 1)
    asyncio.run(look())
