"""Every short history of a consumer group with members of both protocols keeps its promises."""

from dataclasses import replace

import pytest

from kohort.coordination.positions import Reply
from kohort.groups.consumer.state import ConsumerGroup
from kohort.groups.outcome import Outcome
from kohort.groups.replies import ReplyBody
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo
from kohort.sim.consumer_world import ConsumerWorld
from kohort.sim.explore import ExplorationError, explore

both_ways = pytest.mark.parametrize("eager", [False, True], ids=["cooperative", "eager"])


@pytest.mark.slow
@both_ways
def test_no_short_history_from_nothing_gives_a_partition_two_owners(eager: bool) -> None:
    assert explore(4, ConsumerWorld(eager=eager)).states > 450


@pytest.mark.slow
@both_ways
def test_no_short_history_of_a_settled_group_gives_a_partition_two_owners(eager: bool) -> None:
    world = ConsumerWorld.settled(eager=eager)
    assert sorted(number for client in world.clients for number in client.owned) == [0, 1, 2]
    assert explore(3, world).states > 150


@pytest.mark.slow
def test_no_short_history_with_a_failing_log_loses_what_was_acknowledged() -> None:
    assert explore(4, ConsumerWorld(slow_log=True)).states > 250
    assert explore(2, ConsumerWorld.settled(slow_log=True)).states > 90


@pytest.mark.soak
@pytest.mark.timeout(900)
@both_ways
def test_no_long_history_with_a_failing_log_loses_what_was_acknowledged(eager: bool) -> None:
    assert explore(6, ConsumerWorld(slow_log=True, eager=eager)).states > 3_000
    assert explore(4, ConsumerWorld.settled(slow_log=True, eager=eager)).states > 2_200


@pytest.mark.soak
@pytest.mark.timeout(900)
@both_ways
def test_no_long_history_gives_a_partition_two_owners(eager: bool) -> None:
    assert explore(6, ConsumerWorld(eager=eager)).states > 8_000
    assert explore(5, ConsumerWorld.settled(eager=eager)).states > 2_400


def test_a_coordinator_that_forgets_owners_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "is_owned", lambda *_: False)
    with pytest.raises(ExplorationError, match=r"have partition|both own"):
        explore(4, ConsumerWorld())


def test_a_group_that_does_not_hand_out_everything_is_found_out() -> None:
    world = ConsumerWorld.settled()
    world.clients[0].target = world.clients[0].owned = frozenset()
    assert any("have an owner" in complaint for complaint in world.end_complaints())


def test_a_commit_that_is_acknowledged_before_it_is_stored_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reply_at_once(self: Outcome, reply_to: ReplyTo, body: ReplyBody, _after: int = 0) -> None:
        self.replies.append(Reply(reply_to, body))

    world = ConsumerWorld.settled(slow_log=True)
    monkeypatch.setattr(Outcome, "reply", reply_at_once)
    with pytest.raises(ExplorationError, match=r"would be loaded as 0, but 1 was acknowledged"):
        explore(1, world)


def test_a_member_of_the_past_that_may_commit_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """``a`` commits an old position after its partition went to another member."""
    monkeypatch.setattr(ConsumerGroup, "check_commit", lambda *_: ErrorCode.NONE)
    world = ConsumerWorld.settled(slow_log=True)
    world.node.release_appends()
    a, s, _ = world.clients
    zombie = replace(a, positions=dict(a.positions))
    world._leave(a)
    world.fall_silent()
    taken = s if s.owned & zombie.owned else world.clients[2]
    for client in (taken, taken, zombie):
        world._commit(client)
    assert any("but 2 was acknowledged" in complaint for complaint in world.complaints())
