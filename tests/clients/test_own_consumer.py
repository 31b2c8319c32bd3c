"""Kohort's own consumer: alone, in groups of its own kind, and in one group with other libraries."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.feed import Feed
from tests.clients.libraries import (
    CODECS,
    Library,
    Membership,
    Production,
)
from tests.clients.node import Node
from tests.clients.party import Party
from tests.clients.records import assert_same, samples
from tests.clients.waiting import eventually
from tests.clients.wiretap import Wiretap
from tests.clients.with_confluent import Confluent
from tests.clients.with_own import POLL_MS, Own, got

from kohort.client.consumer import AsyncConsumer, Consumer
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.subscription import OffsetAndMetadata, Partitions
from kohort.model.topics import TopicPartition
from kohort.testing.plugin import Kohort

PARTITIONS = 6


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until so many records came, and not more."""
    records: list[ConsumerRecord] = []

    def enough() -> bool:
        records.extend(one for portion in consumer.poll(POLL_MS).values() for one in portion)
        return len(records) >= count

    eventually(f"{count} records", enough)
    assert len(records) == count
    return records


class Diary:
    """A listener that writes down what it hears, and in which thread."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, list[int]]] = []
        self.threads: set[int] = set()

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._note("assigned", partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._note("revoked", partitions)

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self._note("lost", partitions)

    def _note(self, what: str, partitions: Partitions) -> None:
        self.threads.add(threading.get_ident())
        self.entries.append((what, [each.partition for each in partitions]))


@pytest.fixture
def make(groups: Kohort) -> Callable[..., Consumer]:
    """Consumers of the shared broker that begin at the beginning and wait briefly."""

    def consumer(*topics: str, **more: object) -> Consumer:
        settings: dict[str, object] = {
            "bootstrap_servers": groups.bootstrap,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 50,
            "heartbeat_interval_ms": 100,
            "retry_backoff_ms": 20,
        }
        return Consumer(*topics, **(settings | more))  # type: ignore[arg-type]  # the tests' own names

    return consumer


@pytest.mark.parametrize("codec", CODECS)
def test_everything_is_read_as_it_was_sent(groups: Kohort, make: Callable[..., Consumer], codec: str) -> None:
    topic, sent = groups.topic(partitions=3), samples(300, partitions=3)
    Confluent().produce(groups.bootstrap, topic, sent, Production(codec=codec))
    with make() as consumer:
        consumer.assign([(topic, number) for number in range(3)])
        assert_same([got(one) for one in read(consumer, 300)], sent, partitions=3)


def test_places_are_found_by_end_offset_and_time(groups: Kohort, make: Callable[..., Consumer]) -> None:
    topic, sent = groups.topic(), samples(20, partitions=1)
    Confluent().produce(groups.bootstrap, topic, sent, Production())
    where = TopicPartition(topic, 0)  # type: ignore[arg-type]  # plain values
    with make() as consumer:
        consumer.assign([where])
        assert consumer.beginning_offsets([where]) == {where: 0}
        assert consumer.end_offsets([where]) == {where: 20}
        found = consumer.offsets_for_times({where: sent[7].timestamp})[where]
        assert found is not None
        assert found.offset == 7
        assert consumer.offsets_for_times({where: sent[-1].timestamp + 1}) == {where: None}
        consumer.seek(where, 15)
        assert [one.offset for one in read(consumer, 5)] == [15, 16, 17, 18, 19]
        consumer.seek_to_beginning()
        assert consumer.position(where) == 0
        assert len(read(consumer, 20)) == 20
        assert consumer.current_lag(where) == 0
        consumer.seek_to_end(where)
        assert consumer.position(where) == 20
        assert consumer.partitions_for_topic(topic) == {0}
        assert topic in consumer.topics()


@pytest.mark.slow
def test_a_commit_in_an_iteration_covers_what_was_handed_out(
    groups: Kohort, make: Callable[..., Consumer]
) -> None:
    topic, group = groups.topic(), groups.group()
    Confluent().produce(groups.bootstrap, topic, samples(50, partitions=1), Production())
    with make(topic, group_id=group, enable_auto_commit=False) as consumer:
        for record in consumer:
            if record.offset == 9:
                consumer.commit()
                break
        assert consumer.position((topic, 0)) == 10
    with make(topic, group_id=group) as consumer:
        assert next(iter(consumer)).offset == 10  # and is committed as handed out when it closes
    with make(topic, group_id=group) as consumer:
        assert next(iter(consumer)).offset == 11


def test_commits_carry_notes_and_call_back_in_the_thread_that_polls(
    groups: Kohort, make: Callable[..., Consumer]
) -> None:
    topic, group = groups.topic(), groups.group()
    heard: list[tuple[int, object]] = []
    with make(group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        note = OffsetAndMetadata(3, metadata="up to three")
        consumer.commit_async(
            {(topic, 0): note}, lambda _, error: heard.append((threading.get_ident(), error))
        )
        consumer.commit({})  # waits for what is on its way
        assert heard == [(threading.get_ident(), None)]
        assert consumer.committed((topic, 0)) == {(topic, 0): note}


def test_two_members_share_a_topic_and_hear_of_it_in_order(
    groups: Kohort, make: Callable[..., Consumer]
) -> None:
    topic, group = groups.topic(partitions=2), groups.group()
    first, second = Diary(), Diary()
    with make(group_id=group) as one:
        one.subscribe([topic], listener=first)
        eventually("everything", lambda: one.poll(POLL_MS) is not None and len(one.assignment()) == 2)
        with make(group_id=group) as two:
            two.subscribe([topic], listener=second)

            def shared() -> bool:
                one.poll(POLL_MS)
                two.poll(POLL_MS)
                return len(one.assignment()) == len(two.assignment()) == 1

            eventually("a fair share", shared)
        assert one.group_metadata().generation_id >= 2
    assert first.entries[:2] == [("assigned", [0, 1]), ("revoked", [0, 1])]
    assert [what for what, _ in second.entries] == ["assigned", "revoked"]
    assert first.threads == second.threads == {threading.get_ident()}


@pytest.mark.slow
def test_a_pattern_is_followed(groups: Kohort, make: Callable[..., Consumer]) -> None:
    topic, group = groups.topic(), groups.group()
    with make(group_id=group, metadata_max_age_ms=100) as consumer:
        consumer.subscribe(pattern=topic[: topic.index(".topic-")].replace("-", ".") + r"\.topic-\d+")
        eventually(
            "the first topic", lambda: consumer.poll(POLL_MS) == {} and len(consumer.assignment()) == 1
        )
        another = groups.topic()
        eventually("the new topic", lambda: consumer.poll(POLL_MS) == {} and len(consumer.assignment()) == 2)
        assert consumer.subscription() == {topic, another}


def test_an_async_consumer_reads_on_the_callers_loop(groups: Kohort) -> None:
    topic, group = groups.topic(partitions=2), groups.group()
    Confluent().produce(groups.bootstrap, topic, samples(30, partitions=2), Production())

    async def consume() -> tuple[list[ConsumerRecord], dict[TopicPartition, OffsetAndMetadata | None]]:
        async with AsyncConsumer(
            topic, bootstrap_servers=groups.bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            records = []
            async for record in consumer:
                records.append(record)
                if len(records) == 30:
                    break
            await consumer.commit()
            return records, await consumer.committed((topic, 0), (topic, 1))

    records, committed = asyncio.run(asyncio.wait_for(consume(), 90))
    assert len({(one.partition, one.offset) for one in records}) == 30
    assert [found and found.offset for found in committed.values()] == [15, 15]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "assignor"),
    [
        (("own", "confluent", "aiokafka"), "range"),
        (("confluent", "own", "kafka-python"), "roundrobin"),
        (("own", "kafka-python"), "sticky"),
        (("own", "confluent"), "cooperative-sticky"),
        (("own", "second", "third"), "cooperative-sticky"),
    ],
)
def test_it_shares_a_group_with_its_kind_and_other_libraries(
    groups: Kohort, libraries: dict[str, Library], names: tuple[str, ...], assignor: str
) -> None:
    """The first one leads."""
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    wire = Wiretap(groups.broker, group)
    feed.begin(group)
    feed.more(50)
    every: dict[str, Library] = {**libraries, **dict.fromkeys(("own", "second", "third"), Own())}
    with Party(groups.bootstrap) as party:
        for name in names:
            member = Membership(name=name, group=group, topics=(feed.topic,), assignors=(assignor,))
            party.join(every[name], member)
            party.until_work(40)
            party.commit_all()
            feed.more(30)
        party.until_shared(*names, places=PARTITIONS)
        party.leave(names[0])
        party.until_shared(*names[1:], places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.ledger.check_complete(feed.expected)
        wire.check()


@pytest.mark.slow
def test_a_broker_that_restarts_loses_nothing_of_a_group(tmp_path: Path) -> None:
    configs = {"group.initial.rebalance.delay.ms": 0, "num.partitions": PARTITIONS}
    with Node(tmp_path, configs) as node:
        feed = Feed(node.bootstrap, "t", PARTITIONS)
        feed.more(20)
        with Party(node.bootstrap) as party:
            for name in ("one", "two"):
                party.join(Own(), Membership(name=name, group="g", topics=("t",)))
            party.until_work(60)
            party.commit_all()
            node.restart()
            feed.more(20)
            party.until_shared("one", "two", places=PARTITIONS)
            party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
            party.ledger.check_complete(feed.expected)
