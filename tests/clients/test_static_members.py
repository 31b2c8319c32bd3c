"""Static members restart without a rebalance, and are missed when they stay away too long."""

import pytest
from confluent_kafka import Consumer, KafkaError
from tests.clients.feed import Feed
from tests.clients.libraries import NAMES, Library, Membership
from tests.clients.party import Party
from tests.clients.waiting import Deadline, eventually
from tests.clients.wiretap import Wiretap
from tests.clients.with_confluent import settings

from kohort.testing.plugin import Kohort

PARTITIONS = 6


@pytest.mark.slow
def test_a_rolling_restart_of_static_members_of_all_libraries_moves_nothing(
    groups: Kohort, libraries: dict[str, Library]
) -> None:
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    wire = Wiretap(groups.broker, group)
    feed.begin(group)
    feed.more(30)

    def member(name: str) -> Membership:
        return Membership(name=name, group=group, topics=(feed.topic,), instance_id=name)

    with Party(groups.bootstrap) as party:
        for name in NAMES:
            party.join(libraries[name], member(name))
            party.until_work(20)
        party.until_shared(*NAMES, places=PARTITIONS)
        generation, had = wire.generation, party.ledger.by_member()
        for name in NAMES:
            party.leave(name)
            feed.more(10)
            party.join(libraries[name], member(name))
            party.until_shared(*NAMES, places=PARTITIONS)
            party.until_work(20)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)

        assert party.ledger.by_member() == had
        assert wire.generations[-1] == generation
        party.ledger.check_complete(feed.expected)
        party.leave_together()


@pytest.mark.slow
def test_a_static_member_that_stays_away_loses_its_partitions(
    groups: Kohort, libraries: dict[str, Library]
) -> None:
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    feed.begin(group)
    feed.more(30)
    with Party(groups.bootstrap) as party:
        stays = Membership(name="stays", group=group, topics=(feed.topic,), instance_id="stays")
        party.join(libraries["confluent"], stays)
        party.until_work(20)
        party.join(
            libraries["confluent"],
            Membership(name="goes", group=group, topics=(feed.topic,), instance_id="goes", session_ms=2_500),
        )
        party.until_shared("stays", "goes", places=PARTITIONS)

        party.leave("goes")
        party.until_shared("stays", places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)

        party.ledger.check_complete(feed.expected)
        party.leave_together()


@pytest.mark.slow
def test_a_second_client_with_the_same_instance_id_fences_the_first(groups: Kohort) -> None:
    group, topic = groups.group(), groups.topic()
    common = settings(groups.bootstrap, group_id=group, heartbeat_interval_ms=100, group_instance_id="one")
    first, second = Consumer(common), Consumer(common)
    try:
        first.subscribe([topic])
        eventually("a first member", lambda: first.poll(0.05) is None and len(first.assignment()) == 1)
        second.subscribe([topic])
        eventually("a second one", lambda: second.poll(0.05) is None and len(second.assignment()) == 1)

        deadline = Deadline("the first to be fenced")
        while (message := first.poll(0.1)) is None:
            deadline.check()
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._FATAL
        assert "fenced by other consumer with same group.instance.id" in error.str()
    finally:
        second.close()
        first.close()
