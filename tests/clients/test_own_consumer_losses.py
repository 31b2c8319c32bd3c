"""Kohort's own consumer among others when members die, or go and come back."""

import pytest
from tests.clients.feed import Feed
from tests.clients.libraries import Library, Membership
from tests.clients.party import Party
from tests.clients.wiretap import Wiretap
from tests.clients.with_own import Own

from kohort.testing.plugin import Kohort

pytestmark = pytest.mark.slow

PARTITIONS = 4


@pytest.fixture
def everybody(libraries: dict[str, Library]) -> dict[str, Library]:
    return {**libraries, "own": Own()}


@pytest.mark.parametrize(("staying", "going"), [("own", "confluent"), ("aiokafka", "own"), ("own", "own")])
def test_a_static_member_comes_back_to_what_it_had_and_nobody_notices(
    groups: Kohort, everybody: dict[str, Library], staying: str, going: str
) -> None:
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    feed.begin(group)
    feed.more(10)
    stays, goes = (
        Membership(name=name, group=group, topics=(feed.topic,), instance_id=name)
        for name in ("staying", "going")
    )
    with Party(groups.bootstrap) as party:
        party.join(everybody[staying], stays)
        party.join(everybody[going], goes)
        party.until_shared("staying", "going", places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        held = party.ledger.by_member()
        wire = Wiretap(groups.broker, group)
        party.leave("going")
        party.join(everybody[going], goes)
        party.until_shared("staying", "going", places=PARTITIONS)
        assert party.ledger.by_member() == held
        feed.more(10)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)
        party.ledger.check_complete(feed.expected)
        assert {seen.client_id for seen in wire.joins} == {"going"}
        party.leave_together()
        wire.check()
        assert not wire.leaves
