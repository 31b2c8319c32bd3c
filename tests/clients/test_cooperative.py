"""Cooperative rebalances: only what moves is taken away, the rest goes on."""

import pytest
from tests.clients.feed import Feed
from tests.clients.libraries import Library, Membership
from tests.clients.party import Party

from kohort.testing.plugin import Kohort

PARTITIONS = 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["confluent", "kafka-python"])
def test_a_member_keeps_what_does_not_move(groups: Kohort, libraries: dict[str, Library], name: str) -> None:
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    feed.begin(group)
    feed.more(40)

    def member(which: str) -> Membership:
        return Membership(name=which, group=group, topics=(feed.topic,), assignors=("cooperative-sticky",))

    with Party(groups.bootstrap) as party:
        party.join(libraries[name], member("a"))
        party.until_work(60)
        party.commit_all()
        before = party.ledger.by_member()["a"]

        party.join(libraries[name], member("b"))
        party.until_shared("a", "b", places=PARTITIONS)
        kept = party.ledger.by_member()["a"]
        assert kept < before
        # Incremental: what was kept was never given up, and b was given exactly what a gave up.
        revoked = [change.places for change in party.ledger.changes if change[:2] == ("a", "revoked")]
        given = [change.places for change in party.ledger.changes if change[:2] == ("b", "assigned")]
        assert {place for places in revoked for place in places} == before - kept
        assert {place for places in given for place in places} == before - kept

        party.leave("a")
        party.until_shared("b", places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.ledger.check_complete(feed.expected)
