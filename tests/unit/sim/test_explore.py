"""Every history of three members."""

import pytest

from kohort.coordination.positions import Reply
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import NO_MEMBER
from kohort.groups.outcome import Outcome
from kohort.groups.replies import HeartbeatReply, JoinReply, ReplyBody
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo
from kohort.sim.explore import ExplorationError, explore
from kohort.sim.world import GROUP, Client, World


@pytest.mark.slow
def test_no_history_from_nothing_breaks_an_invariant() -> None:
    explored = explore(5)
    assert explored.states > 600


@pytest.mark.slow
def test_no_history_from_a_stable_group_breaks_an_invariant() -> None:
    explored = explore(4, World.stable())
    assert explored.states > 1_200


@pytest.mark.soak
def test_no_long_history_breaks_an_invariant() -> None:
    assert explore(8).states > 15_000
    assert explore(7, World.stable()).states > 30_000


def test_a_defect_is_found_and_the_way_to_it_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.groups.classic.membership.cancel_session", lambda *_: None)
    with pytest.raises(ExplorationError, match="is gone from 'g' but has a timer") as found:
        explore(3)
    assert found.value.path == ("a joins", "a leaves")
    assert str(found.value).endswith("after: a joins, a leaves")


def test_a_defect_that_shows_in_the_end_only_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.groups.classic.expiry.drop_pending_id", lambda *_: None)
    with pytest.raises(ExplorationError, match="everyone falls silent"):
        explore(1)


def test_a_reply_that_leaves_before_the_log_has_what_it_rests_on_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reply_at_once(self: Outcome, reply_to: ReplyTo, body: ReplyBody, _after: int = 0) -> None:
        self.replies.append(Reply(reply_to, body))

    monkeypatch.setattr(Outcome, "reply", reply_at_once)
    with pytest.raises(ExplorationError, match="was acknowledged and is lost"):
        explore(3, World.stable())


def test_an_assertion_of_the_core_is_told_with_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("broken on purpose")

    monkeypatch.setattr("kohort.groups.classic.join.arm_session", fail)
    with pytest.raises(ExplorationError, match="broken on purpose") as found:
        explore(1)
    assert found.value.path == ("a joins",)


def test_a_stable_world_is_one() -> None:
    world = World.stable()
    group = world.node.shard.group(GROUP)
    assert group is not None
    assert group.phase is Phase.STABLE
    assert len(group.members) == 3
    assert list(world.complaints()) == []


def test_a_thawed_world_has_its_own_future() -> None:
    world = World.stable()
    twin = World.thaw(world.freeze())
    assert twin.fingerprint() == world.fingerprint()
    twin.fall_silent()
    assert twin.fingerprint() != world.fingerprint()
    assert list(twin.end_complaints()) == []


def test_a_world_that_has_not_come_to_rest_is_noticed() -> None:
    world = World.stable()
    world.generation = type(world.generation)(9)
    world._join(next(client for client in world.clients if client.leads))
    found = " ".join(world.end_complaints())
    for complaint in ("generation 1 after 9", "are never answered", "without requests", "timers run"):
        assert complaint in found


def test_clients_react_as_clients_do() -> None:
    client = Client("a", None)
    client.learn(JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=type(NO_MEMBER)("a-1")))
    assert client.member_id == "a-1"
    client.learn(HeartbeatReply(error=ErrorCode.UNKNOWN_MEMBER_ID))
    assert client.member_id == NO_MEMBER
