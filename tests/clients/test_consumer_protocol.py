"""librdkafka as members of consumer groups (KIP-848): names and expressions, churn, static members."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer
from tests.clients.feed import Feed
from tests.clients.libraries import Library, Membership
from tests.clients.party import Party
from tests.clients.waiting import eventually
from tests.clients.with_confluent import settings

from kohort.testing.broker import Broker
from kohort.testing.intercept import Rule, watch
from kohort.testing.plugin import Kohort

pytestmark = pytest.mark.slow

PARTITIONS = 6
OFTEN = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 10_000,
}


@pytest.fixture
def often(request: pytest.FixtureRequest) -> Iterator[Kohort]:
    """A broker whose members heartbeat often, so that they learn of each other soon."""
    with Broker(configs=OFTEN) as broker:
        yield Kohort(broker, request.node.name)


def member(name: str, group: str, *topics: str, instance: str | None = None) -> Membership:
    return Membership(name=name, group=group, topics=topics, instance_id=instance, protocol="consumer")


def test_members_come_and_go_and_miss_nothing(often: Kohort, libraries: dict[str, Library]) -> None:
    group = often.group()
    feed = Feed(often.bootstrap, often.topic(partitions=PARTITIONS), PARTITIONS)
    feed.begin(group)
    feed.more(50)
    names = ("one", "two", "three")
    with Party(often.bootstrap) as party:
        for name in names:
            party.join(libraries["confluent"], member(name, group, feed.topic))
            party.until_work(20)
            party.commit_all()
            feed.more(30)
        party.until_shared(*names, places=PARTITIONS)
        party.leave("one")
        party.until_shared("two", "three", places=PARTITIONS)
        feed.more(20)
        party.join(libraries["confluent"], member("one", group, feed.topic))
        party.until_shared(*names, places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.ledger.check_complete(feed.expected)


def test_a_subscription_by_expression_gets_the_topics_that_match(
    often: Kohort, libraries: dict[str, Library]
) -> None:
    group = often.group()
    feed = Feed(often.bootstrap, often.topic(partitions=PARTITIONS), PARTITIONS)
    feed.begin(group)
    feed.more(30)
    pattern = f"^{feed.topic[:-1]}.*"  # librdkafka takes names that begin with ^ for expressions
    with Party(often.bootstrap) as party:
        for name in ("one", "two"):
            party.join(libraries["confluent"], member(name, group, pattern))
        party.until_shared("one", "two", places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.ledger.check_complete(feed.expected)


def test_a_member_that_does_not_poll_loses_its_partitions_to_the_others_and_comes_back() -> None:
    """librdkafka goes on with its heartbeats, but the application never gives up what it is asked for."""
    with Broker(virtual_time=True, configs=OFTEN) as broker, ExitStack() as stack:
        broker.create_topic("t", partitions=PARTITIONS)
        lost: list[int] = []

        def join(name: str) -> tuple[Consumer, Rule]:
            beats = broker.intercept(watch, api="ConsumerGroupHeartbeat", client=name)
            member = settings(broker.bootstrap, client_id=name, group_id="g", group_protocol="consumer")
            consumer = Consumer(member | {"max.poll.interval.ms": 60_000})
            stack.callback(consumer.close)
            consumer.subscribe(["t"], on_lost=lambda _, partitions: lost.append(len(partitions)))
            return consumer, beats

        hangs, its_beats = join("hangs")
        eventually("all partitions", lambda: hangs.poll(0.05) is None and owns(hangs, PARTITIONS))
        other, other_beats = join("other")
        passed = 0
        while not owns(other, PARTITIONS):
            before = len(its_beats.seen), len(other_beats.seen)
            eventually(
                "heartbeats of both, or of the other alone when it has everything",
                lambda since=before: (
                    other.poll(0.05) is None  # type: ignore[misc] # a lambda of its round
                    and len(other_beats.seen) > since[1]
                    and (len(its_beats.seen) > since[0] or owns(other, PARTITIONS))
                ),
            )
            broker.advance(4_000)  # less than a session
            passed += 4_000
            assert passed <= 80_000, "its rebalance timeout is a minute"
        assert passed >= 60_000
        assert lost == []
        eventually(
            "both have their share",
            lambda: hangs.poll(0.05) is None and other.poll(0.05) is None and owns(hangs, PARTITIONS // 2),
        )
        assert sum(lost) >= PARTITIONS // 2
        assert owns(other, PARTITIONS // 2)


def owns(consumer: Consumer, count: int) -> bool:
    return len(consumer.assignment()) == count
