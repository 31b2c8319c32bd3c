"""Kohort's consumer with group.protocol=consumer (KIP-848): against Apache Kafka, the oracle, and Kohort."""

import random

import pytest
from tests.clients.feed import Feed
from tests.clients.libraries import Membership
from tests.clients.party import Party
from tests.clients.test_own_consumer import read
from tests.clients.with_own import Own
from tests.interop.targets import Target
from tests.interop.test_own_consumer import PARTITIONS, FreshName, make_topic, reader

from kohort.client.subscription import SubscriptionPattern

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def membership(feed: Feed, name: str, protocol: str = "consumer", instance: str | None = None) -> Membership:
    return Membership(
        name=name, group=feed.topic, topics=(feed.topic,), instance_id=instance, protocol=protocol
    )


def test_members_share_hand_over_and_lose_nothing(target: Target, fresh_name: FreshName) -> None:
    """The ledger of the party checks that no member reads what another owns."""
    feed = Feed(target.bootstrap, make_topic(target, fresh_name("own-848")), PARTITIONS)
    names = ("one", "two", "three")
    with Party(target.bootstrap) as party:
        feed.more(40)
        for name in names:
            party.join(Own(), membership(feed, name))
            party.until_work(20)
            party.commit_all()
            feed.more(20)
        party.until_shared(*names, places=PARTITIONS)
        party.leave("one")
        party.until_shared(*names[1:], places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.ledger.check_complete(feed.expected)


def test_a_static_member_comes_back_to_what_it_had(target: Target, fresh_name: FreshName) -> None:
    feed = Feed(target.bootstrap, make_topic(target, fresh_name("own-848-static")), PARTITIONS)
    feed.more(10)
    with Party(target.bootstrap) as party:
        for name in ("one", "two"):
            party.join(Own(), membership(feed, name, instance=name))
        party.until_shared("one", "two", places=PARTITIONS)
        held = party.ledger.by_member()
        party.leave("two")
        party.join(Own(), membership(feed, "two", instance="two"))
        party.until_shared("one", "two", places=PARTITIONS)
        assert party.ledger.by_member() == held
        feed.more(10)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.leave_together()


def test_members_of_both_protocols_come_and_go_in_one_group(target: Target, fresh_name: FreshName) -> None:
    """The group is upgraded and downgraded on the way; each record is accounted for."""
    feed = Feed(target.bootstrap, make_topic(target, fresh_name("own-848-mixed")), PARTITIONS)
    dice = random.Random(848)
    here: list[str] = []
    with Party(target.bootstrap) as party:
        for number in range(8):
            protocol = ("classic", "consumer")[number % 2]
            here.append(f"{protocol}-{number}")
            party.join(Own(), membership(feed, here[-1], protocol))
            feed.more(20)
            party.until_work(5)
            party.commit_all()
            if len(here) > 2:
                party.leave(here.pop(dice.randrange(len(here))))
        party.until_shared(*here, places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.ledger.check_complete(feed.expected)


def test_the_broker_matches_a_regular_expression(target: Target, fresh_name: FreshName) -> None:
    prefix = fresh_name("own-848-pattern")
    for kind in ("a", "b"):
        Feed(target.bootstrap, make_topic(target, f"{prefix}-{kind}", 1), 1).more(3)
    make_topic(target, f"other-{prefix}-a", 1)
    settings = {"group_id": prefix, "group_protocol": "consumer", "group_remote_assignor": "range"}
    with reader(target, **settings) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern(f"{prefix}-[ab]"))
        assert len(read(consumer, 6)) == 6
        assert consumer.subscription() == {f"{prefix}-a", f"{prefix}-b"}
        assert consumer.group_metadata().generation_id > 0
