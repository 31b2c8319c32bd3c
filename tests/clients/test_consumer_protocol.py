"""librdkafka as members of consumer groups (KIP-848): names and expressions, churn, static members."""

from collections.abc import Iterator

import pytest
from tests.clients.feed import Feed
from tests.clients.libraries import Library, Membership
from tests.clients.party import Party

from kohort.testing.broker import Broker
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
