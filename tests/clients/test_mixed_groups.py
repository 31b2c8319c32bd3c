"""One group, members of different client libraries."""

import pytest
from tests.clients.feed import Feed
from tests.clients.libraries import NAMES, Library, Membership
from tests.clients.party import Party
from tests.clients.wiretap import Wiretap

from kohort.testing.plugin import Kohort

PARTITIONS = 6
MIXTURES = [
    (("confluent", "kafka-python", "aiokafka"), "range"),
    (("aiokafka", "confluent", "kafka-python"), "range"),
    (("kafka-python", "aiokafka", "confluent"), "roundrobin"),
    (("kafka-python", "aiokafka"), "sticky"),
    (("aiokafka", "kafka-python"), "sticky"),
    (("confluent", "kafka-python"), "cooperative-sticky"),
    (("kafka-python", "confluent"), "cooperative-sticky"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("names", "assignor"), MIXTURES)
def test_members_of_different_libraries_share_one_group(
    groups: Kohort, libraries: dict[str, Library], names: tuple[str, ...], assignor: str
) -> None:
    """The first one leads: each library computes the assignment for the others in some of the cases."""
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    wire = Wiretap(groups.broker, group)
    feed.begin(group)
    feed.more(50)

    def member(name: str) -> Membership:
        return Membership(name=name, group=group, topics=(feed.topic,), assignors=(assignor,))

    with Party(groups.bootstrap) as party:
        for name in names:
            party.join(libraries[name], member(name))
            party.until_work(40)
            party.commit_all()
            feed.more(30)
        party.until_shared(*names, places=PARTITIONS)

        first, *others = names
        party.leave(first)
        party.until_shared(*others, places=PARTITIONS)
        feed.more(20)
        party.join(libraries[first], member(first))
        party.until_shared(*names, places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)

        party.ledger.check_complete(feed.expected)
        wire.check()


@pytest.mark.slow
def test_a_rolling_restart_of_dynamic_members_skips_nothing(
    groups: Kohort, libraries: dict[str, Library]
) -> None:
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    wire = Wiretap(groups.broker, group)
    feed.begin(group)
    with Party(groups.bootstrap) as party:
        for name in (*NAMES, *NAMES):
            feed.more(20)
            if party.has(name):
                party.commit(name)
                party.leave(name)
            party.join(libraries[name], Membership(name=name, group=group, topics=(feed.topic,)))
            party.until_work(40)
        party.until_shared(*NAMES, places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)

        party.ledger.check_complete(feed.expected)
        wire.check()
        assert len(wire.leaves) == len(NAMES)


@pytest.mark.slow
def test_the_assignor_most_members_prefer_is_chosen(groups: Kohort, libraries: dict[str, Library]) -> None:
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    feed.begin(group)
    feed.more(20)
    preferences = {
        "confluent": ("roundrobin", "range"),
        "kafka-python": ("roundrobin", "range"),
        "aiokafka": ("range",),
    }
    with Party(groups.bootstrap) as party:
        for name, assignors in preferences.items():
            topics = (feed.topic,)
            party.join(
                libraries[name], Membership(name=name, group=group, topics=topics, assignors=assignors)
            )
            party.until_work(10)
            party.commit_all()
        party.until_shared(*preferences, places=PARTITIONS)

        # Two of three prefer roundrobin, but the third does not know it: the common one wins.
        (described,) = _describe(groups, group)
        assert described == ("range", 3)
        party.leave("aiokafka")
        party.until_shared("confluent", "kafka-python", places=PARTITIONS)
        (described,) = _describe(groups, group)
        assert described == ("roundrobin", 2)


def _describe(groups: Kohort, group: str) -> list[tuple[str, int]]:
    """The protocol a group uses and its number of members, as an administrator sees them."""
    from tests.clients.with_kafka_python import kafka, settings

    admin = kafka.KafkaAdminClient(**settings(groups.bootstrap))
    try:
        described = admin.describe_groups([group])[group]
    finally:
        admin.close()
    return [(described["protocol_data"], len(described["members"]))]
