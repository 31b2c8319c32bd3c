"""The tables of timers and their effects (classic-groups 2.4), cell by cell.

Timers that fire are handed to the shard as the commands they become, whatever the state: what must be
ignored is tried on purpose.
"""

from collections.abc import Callable

import pytest
from tests.scenario.groups.states import STATES, current_generation, id_or_any, in_state, state_letter
from tests.scenario.groups.story import (
    REBALANCE,
    SESSION,
    completing,
    joined,
    keep_alive,
    phase_of,
    refused_join,
    refused_sync,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import ExpireSession, ExpireSync
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, Instant, MemberId
from kohort.sim.driver import Scenario


def session_ends(scenario: Scenario, member_id: MemberId) -> None:
    """The session timer of this id fires now."""
    scenario.order(ExpireSession(scenario.group_id, member_id, SESSION, Instant(scenario.now)))


def sync_ends(scenario: Scenario, generation: int) -> None:
    """The sync timer of this generation fires now."""
    scenario.order(ExpireSync(scenario.group_id, Generation(generation), REBALANCE))


def is_ignored(scenario: Scenario, fire: Callable[[], None]) -> bool:
    """Whether nothing happens: no event, no answer, nothing to store."""
    before = (len(scenario.events), len(scenario.sent), len(scenario.log), state_letter(scenario))
    fire()
    return before == (len(scenario.events), len(scenario.sent), len(scenario.log), state_letter(scenario))


@pytest.mark.parametrize("state", list("EPD∅"))
def test_a_sync_timer_is_ignored_where_nobody_syncs(state: str) -> None:
    """Sync timer fires, same generation: E, P, D, ∅ ignore."""
    scenario = in_state(state)
    assert is_ignored(scenario, lambda: sync_ends(scenario, current_generation(scenario)))


@pytest.mark.parametrize("state", list(STATES))
def test_a_sync_timer_of_another_generation_is_ignored(state: str) -> None:
    """Sync timer fires, other generation: ignore in every state."""
    scenario = in_state(state)
    current = current_generation(scenario)
    assert is_ignored(scenario, lambda: sync_ends(scenario, current - 1))
    assert is_ignored(scenario, lambda: sync_ends(scenario, current + 1))


def test_a_sync_timer_with_nobody_missing_is_ignored() -> None:
    """Sync timer fires, nobody pending: ignore."""
    scenario = stable("a", "b")
    assert is_ignored(scenario, lambda: sync_ends(scenario, 1))


def test_a_sync_timer_removes_who_is_missing() -> None:
    """Sync timer fires, some left: C and S remove those members (static ones too), → P."""
    scenario = in_state("C")
    of_b = scenario.sync("b")
    sync_ends(scenario, 1)
    assert (scenario.members, state_letter(scenario)) == (["b"], "P")
    assert scenario.replies[of_b] == refused_sync(ErrorCode.REBALANCE_IN_PROGRESS)
    late = completing("a", "b")
    late.sync("a")
    sync_ends(late, 1)
    assert (late.members, state_letter(late)) == (["a"], "P")


@pytest.mark.parametrize("state", list("EPCS"))
def test_a_handed_out_id_that_times_out_is_dropped(state: str) -> None:
    """Session of a pending id fires: drop id; the state stays."""
    scenario = in_state(state)
    session_ends(scenario, scenario.id_of("p"))
    assert not scenario.group.pending
    assert state_letter(scenario) == state


@pytest.mark.parametrize("state", list("D∅"))
@pytest.mark.parametrize("name", ["a", "b", "p", "s"])
def test_where_there_is_no_group_sessions_end_unnoticed(state: str, name: str) -> None:
    """Every session row: D and ∅ ignore."""
    scenario = in_state(state)
    assert is_ignored(scenario, lambda: session_ends(scenario, id_or_any(scenario, name)))


@pytest.mark.parametrize("state", list(STATES))
def test_the_session_of_somebody_who_is_gone_ends_unnoticed(state: str) -> None:
    """Session of an id no longer in the group fires: ignore, in every state."""
    scenario = in_state(state)
    assert is_ignored(scenario, lambda: session_ends(scenario, MemberId("gone")))


def test_a_new_member_is_not_protected_by_its_parked_join() -> None:
    """Session of an ``is_new`` member fires, P: parked join gets 25 with member id ``""``; remove."""
    scenario = stable("a", "b")
    of_c = scenario.join("c")
    of_a = scenario.join("a")
    session_ends(scenario, scenario.id_of("c"))
    assert scenario.replies[of_c] == refused_join(ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert scenario.members == ["a", "b"]
    assert scenario.is_parked(of_a)  # "b" is still missing


def test_a_new_member_that_times_out_lets_the_others_go_on() -> None:
    """The same, if ``all_joined`` complete join: that ends even the initial delay (classic-groups 10 #9)."""
    scenario = Scenario()
    of_a = scenario.join("a")
    of_b = scenario.join("b")
    session_ends(scenario, scenario.id_of("b"))
    assert scenario.replies[of_b] == refused_join(ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert scenario.replies[of_a] == joined(scenario, "a", leader="a", generation=1, listed="a")
    session_ends(scenario, scenario.id_of("a"))
    assert (state_letter(scenario), scenario.group.generation) == ("E", 2)


def test_who_waits_for_the_join_phase_is_protected() -> None:
    """Session of a non-new member with parked join fires, P: ignore, not re-armed."""
    scenario = in_state("P")
    scenario.join("b")
    assert is_ignored(scenario, lambda: session_ends(scenario, scenario.id_of("b")))
    keep_alive(scenario, "a", "s", millis=2 * SESSION)
    assert "b" in scenario.members


def test_who_waits_for_its_assignment_is_protected() -> None:
    """Session of a non-new member with parked sync fires, C: ignore, not re-armed."""
    scenario = in_state("C")
    scenario.sync("b")
    assert is_ignored(scenario, lambda: session_ends(scenario, scenario.id_of("b")))
    keep_alive(scenario, "a", "s", millis=2 * SESSION)
    assert "b" in scenario.members


@pytest.mark.parametrize("state", list("PCS"))
@pytest.mark.parametrize("name", ["a", "b", "s"])
def test_a_silent_member_is_removed(state: str, name: str) -> None:
    """Session of any other member fires: P remove; C remove → P; S remove → P."""
    scenario = in_state(state)
    session_ends(scenario, scenario.id_of(name))
    assert state_letter(scenario) == "P"
    assert name not in scenario.members
    assert scenario.heartbeat(name) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scenario.leader != name


def test_a_silent_member_that_was_the_last_to_be_waited_for_ends_the_join_phase() -> None:
    """Session of any other member fires, P: if ``all_joined`` complete join."""
    scenario = stable("a", "b")
    request = scenario.join("a")
    session_ends(scenario, scenario.id_of("b"))
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=2, listed="a")


def test_the_last_member_leaves_an_empty_group() -> None:
    """Removing the last member from S or C: → P, completes → E, generation +1, empty record written; with a
    pending id left the join timer fires at once."""
    for make in (stable, completing):
        for is_id_out in (False, True):
            scenario = make("a")
            if is_id_out:
                scenario.join_once("p")
            session_ends(scenario, scenario.id_of("a"))
            scenario.sleep(1)
            assert (state_letter(scenario), scenario.group.generation) == ("E", 2)
            assert scenario.log[-1].value is not None


def test_a_replaced_session_timer_never_runs() -> None:
    """Arming a key replaces the previous timer of that key: one deadline, the newest."""
    scenario = stable("a")
    for _ in range(50):
        scenario.sleep(SESSION - 1)
        assert scenario.heartbeat("a") is ErrorCode.NONE
    assert phase_of(scenario) is Phase.STABLE


def test_a_join_timer_never_outlives_its_phase() -> None:
    """The join timer is cancelled on completion: a later phase gets its whole time."""
    scenario = stable("a", "b")
    scenario.join("a")
    scenario.sleep(9_000)
    scenario.join("b")  # completes the first phase, whose timer had 21,000 ms left
    scenario.sync_all()
    request = scenario.join("a")
    keep_alive(scenario, "b", millis=REBALANCE - 1)
    assert scenario.is_parked(request)
    scenario.sleep(1)
    assert scenario.error(request) is ErrorCode.NONE


def test_a_sync_timer_never_outlives_its_generation() -> None:
    """The sync timer is cancelled when a new rebalance starts: a later generation gets its whole time."""
    scenario = completing("a", "b")
    keep_alive(scenario, "a", "b", millis=20_000)
    scenario.join("a", changed=True)
    scenario.join("b")
    assert scenario.group.generation == 2
    keep_alive(scenario, "a", "b", millis=REBALANCE - 1)
    assert scenario.members == ["a", "b"]
    scenario.sleep(1)
    assert phase_of(scenario) is Phase.EMPTY
