"""A member's process dies: its session runs out, the others take over where it had committed."""

import pytest
from tests.clients.child import Child
from tests.clients.feed import Feed
from tests.clients.libraries import Library, Membership
from tests.clients.party import Party
from tests.clients.wiretap import Wiretap
from tests.clients.with_own import Own

from kohort.testing.plugin import Kohort

PARTITIONS = 4
SESSION_MS = 2_500  # long enough for a busy machine, short enough to wait for


@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "survivor"),
    [
        ("confluent", "aiokafka"),
        ("kafka-python", "confluent"),
        ("aiokafka", "kafka-python"),
        ("own", "confluent"),
        ("kafka-python", "own"),
    ],
)
def test_the_others_take_over_when_a_process_is_killed(
    groups: Kohort, libraries: dict[str, Library], killed: str, survivor: str
) -> None:
    group = groups.group()
    feed = Feed(groups.bootstrap, groups.topic(partitions=PARTITIONS), PARTITIONS)
    wire = Wiretap(groups.broker, group)
    feed.begin(group)
    feed.more(100)
    everybody: dict[str, Library] = {**libraries, "own": Own()}
    doomed = Membership(name="doomed", group=group, topics=(feed.topic,), session_ms=SESSION_MS)
    with Party(groups.bootstrap) as party:
        child = Child(killed, groups.bootstrap, doomed, party.ledger)
        party.add(child)
        party.until("a first commit", lambda: len(party.ledger.acknowledged) > 0)
        party.join(everybody[survivor], Membership(name="survivor", group=group, topics=(feed.topic,)))
        party.until_shared("doomed", "survivor", places=PARTITIONS)
        feed.more(200)
        party.until_work(40)

        party.kill(child)
        # One who comes now starts a rebalance that waits for the dead one, until its session is over.
        party.join(everybody[survivor], Membership(name="heir", group=group, topics=(feed.topic,)))
        party.until_shared("survivor", "heir", places=PARTITIONS)
        party.until("all records", lambda: party.ledger.is_complete(feed.expected), committing=True)

        party.ledger.check_complete(feed.expected)
        wire.check()
        assert not wire.leaves, "nobody said goodbye: it was the session that ended"
