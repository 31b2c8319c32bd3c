"""Every short history of a consumer group with members of both protocols keeps its promises."""

import pytest

from kohort.groups.consumer.state import ConsumerGroup
from kohort.sim.consumer_world import ConsumerWorld
from kohort.sim.explore import ExplorationError, explore


@pytest.mark.slow
def test_no_short_history_from_nothing_gives_a_partition_two_owners() -> None:
    assert explore(4, ConsumerWorld()).states > 400


@pytest.mark.slow
def test_no_short_history_of_a_settled_group_gives_a_partition_two_owners() -> None:
    world = ConsumerWorld.settled()
    assert sorted(number for client in world.clients for number in client.owned) == [0, 1, 2]
    assert explore(3, world).states > 150


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_no_long_history_gives_a_partition_two_owners() -> None:
    assert explore(6, ConsumerWorld()).states > 8_000
    assert explore(5, ConsumerWorld.settled()).states > 3_000


def test_a_coordinator_that_forgets_owners_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "is_owned", lambda *_: False)
    with pytest.raises(ExplorationError, match=r"have partition|both own"):
        explore(4, ConsumerWorld())


def test_a_group_that_does_not_hand_out_everything_is_found_out() -> None:
    world = ConsumerWorld.settled()
    world.clients[0].told = world.clients[0].owned = frozenset()
    assert any("have an owner" in complaint for complaint in world.end_complaints())
