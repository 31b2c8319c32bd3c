"""Groups of one client library: members come and go, and no record is lost on the way."""

import pytest
from tests.clients.feed import Feed
from tests.clients.libraries import Library, Membership
from tests.clients.party import Party
from tests.clients.wiretap import Wiretap

from kohort.testing.plugin import Kohort

PARTITIONS = 6
# The pairs of library and assignor that lead no mixed group: those are in test_mixed_groups.py.
ASSIGNORS = [("confluent", "roundrobin"), ("kafka-python", "range"), ("aiokafka", "roundrobin")]


def feed_of(groups: Kohort) -> Feed:
    return Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "assignor"), ASSIGNORS)
def test_members_join_and_leave_under_load_and_nothing_is_skipped(
    groups: Kohort, libraries: dict[str, Library], name: str, assignor: str
) -> None:
    feed, group = feed_of(groups), groups.group()
    wire = Wiretap(groups.broker, group)
    feed.begin(group)
    feed.more(50)
    with Party(groups.bootstrap) as party:
        for member in ("a", "b", "c"):
            joining = Membership(name=member, group=group, topics=(feed.topic,), assignors=(assignor,))
            party.join(libraries[name], joining)
            party.until_work(60)
            party.commit_all()
            feed.more(30)
        party.until_shared("a", "b", "c", places=PARTITIONS)

        party.leave("a")
        party.until_shared("b", "c", places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)

        party.ledger.check_complete(feed.expected)
        wire.check()


@pytest.mark.slow
def test_what_was_not_committed_is_processed_again_and_only_that(groups: Kohort, library: Library) -> None:
    feed, group = feed_of(groups), groups.group()
    feed.more(40)
    with Party(groups.bootstrap) as party:
        party.join(library, Membership(name="a", group=group, topics=(feed.topic,)))
        party.until("some work", lambda: party.ledger.count() >= 60)
        party.commit("a")
        before = sum(party.ledger.acknowledged.values())
        party.until("more work", lambda: party.ledger.count() >= 120)
        party.leave("a")
        done = party.ledger.count()

        # The ledger checks that each partition starts at its commit and goes on without a gap.
        party.join(library, Membership(name="b", group=group, topics=(feed.topic,)))
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.until("the uncommitted again", lambda: party.ledger.repeated() == done - before)

        party.ledger.check_complete(feed.expected)


@pytest.mark.slow
def test_committed_tells_what_was_committed_and_nothing_for_the_rest(
    groups: Kohort, library: Library
) -> None:
    feed, group = feed_of(groups), groups.group()
    feed.more(20)
    with Party(groups.bootstrap) as party:
        member = party.join(library, Membership(name="a", group=group, topics=(feed.topic,)))
        party.until_shared("a", places=PARTITIONS)
        assert [member.committed(place) for place in feed.places] == [None] * PARTITIONS

        member.commit({feed.places[0]: 7, feed.places[1]: 0})

        assert [member.committed(place) for place in feed.places[:3]] == [7, 0, None]


@pytest.mark.slow
def test_a_member_that_subscribes_to_two_topics_gets_both(groups: Kohort, library: Library) -> None:
    one, two = feed_of(groups), feed_of(groups)
    one.more(10)
    two.more(10)
    expected = one.expected | two.expected
    group = groups.group()
    one.begin(group)
    two.begin(group)
    with Party(groups.bootstrap) as party:
        for name in ("a", "b"):
            party.join(library, Membership(name=name, group=group, topics=(one.topic, two.topic)))
        party.until_shared("a", "b", places=2 * PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(expected), committing=True)

        party.ledger.check_complete(expected)


@pytest.mark.slow
def test_more_members_than_partitions_leaves_some_without(groups: Kohort, library: Library) -> None:
    feed = Feed(groups.bootstrap, groups.topic(partitions=1), 1)
    group = groups.group()
    feed.begin(group)
    feed.more(50)
    with Party(groups.bootstrap) as party:
        for name in ("a", "b"):
            party.join(library, Membership(name=name, group=group, topics=(feed.topic,)))
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.until("an owner", lambda: len(party.ledger.by_member()) == 1)
        (busy,) = party.ledger.by_member()
        (idle,) = {"a", "b"} - {busy}

        party.leave(busy)
        party.until_shared(idle, places=1)
        feed.more(10)
        party.until("the new records", lambda: party.ledger.is_complete(feed.expected))

        party.ledger.check_complete(feed.expected)
