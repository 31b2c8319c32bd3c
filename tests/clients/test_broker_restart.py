"""The broker goes away and comes back: members of all libraries go on where they were."""

from functools import partial
from pathlib import Path

import pytest
from tests.clients.feed import Feed
from tests.clients.libraries import NAMES, Library, Membership
from tests.clients.node import Node
from tests.clients.party import Party
from tests.clients.with_own import Own

PARTITIONS = 6
CONFIGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 5,
    "num.partitions": PARTITIONS,
}
OFTEN = {"group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 100}


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_members_go_on_after_the_broker_was(tmp_path: Path, libraries: dict[str, Library], end: str) -> None:
    with Node(tmp_path, CONFIGS) as node:
        feed = Feed(node.bootstrap, "work", PARTITIONS)
        feed.more(50)
        feed.begin("workers")
        with Party(node.bootstrap) as party:
            for name in NAMES:
                party.join(libraries[name], Membership(name=name, group="workers", topics=("work",)))
                party.until_work(20)
            party.until_shared(*NAMES, places=PARTITIONS)
            party.commit_all()
            party.until_work(20)
            before = len(party.ledger.changes)

            if end == "killed":
                node.kill()
                node.start()
            else:
                node.restart()

            feed.more(20)
            party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
            party.ledger.check_complete(feed.expected)
            # The group came back as it was: nobody had to join again.
            assert party.ledger.changes[before:] == []


@pytest.mark.slow
def test_a_broker_that_is_killed_while_partitions_change_hands_loses_and_doubles_none(
    tmp_path: Path, libraries: dict[str, Library]
) -> None:
    """librdkafka and our own client with the consumer protocol: each joins, and the broker dies when the
    first partition is given up or taken for it."""
    with Node(tmp_path, {**CONFIGS, **OFTEN}) as node:
        feed = Feed(node.bootstrap, "work", PARTITIONS)
        feed.more(50)
        with Party(node.bootstrap) as party:
            joined: list[str] = []
            rdkafka = libraries["confluent"]
            for name, library in (("one", rdkafka), ("two", Own()), ("three", rdkafka)):
                before = len(party.ledger.changes)
                party.join(
                    library, Membership(name=name, group="workers", topics=("work",), protocol="consumer")
                )
                joined.append(name)
                party.until("a change", partial(has_changed, party, before))
                node.kill()
                node.start()
                party.until_shared(*joined, places=PARTITIONS)
                party.commit_all()
                feed.more(20)
            party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
            party.ledger.check_complete(feed.expected)


def has_changed(party: Party, before: int) -> bool:
    return len(party.ledger.changes) > before


@pytest.mark.slow
def test_members_of_the_consumer_protocol_keep_their_epochs_when_the_broker_is_killed(tmp_path: Path) -> None:
    names = ("one", "two", "three")
    with Node(tmp_path, {**CONFIGS, **OFTEN}) as node:
        feed = Feed(node.bootstrap, "work", PARTITIONS)
        feed.more(50)
        with Party(node.bootstrap) as party:
            for name in names:
                party.join(
                    Own(), Membership(name=name, group="workers", topics=("work",), protocol="consumer")
                )
                party.until_work(10)
            party.until_shared(*names, places=PARTITIONS)
            party.commit_all()
            before = len(party.ledger.changes)
            for _ in range(2):
                node.kill()
                node.start()
                feed.more(20)
                party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
            party.ledger.check_complete(feed.expected)
            assert party.ledger.changes[before:] == []


@pytest.mark.slow
def test_offsets_survive_a_restart_and_the_next_member_starts_there(tmp_path: Path, library: Library) -> None:
    with Node(tmp_path, CONFIGS) as node:
        feed = Feed(node.bootstrap, "work", PARTITIONS)
        feed.more(30)
        with Party(node.bootstrap) as party:
            party.join(library, Membership(name="before", group="workers", topics=("work",)))
            party.until_work(60)
            party.commit("before")
            party.leave("before")

            node.restart()

            member = party.join(library, Membership(name="after", group="workers", topics=("work",)))
            party.until_shared("after", places=PARTITIONS)
            stored = {place: member.committed(place) for place in feed.places}
            assert {place: found for place, found in stored.items() if found} == party.ledger.acknowledged
            party.until("all records", lambda: party.ledger.is_complete(feed.expected))
            party.ledger.check_complete(feed.expected)
