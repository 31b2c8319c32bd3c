"""Heartbeats and sessions (classic-groups 5.1, 5.2, 12)."""

import pytest
from tests.scenario.groups.story import (
    NEW_MEMBER,
    REBALANCE,
    SESSION,
    assigned,
    beat,
    completing,
    joined,
    keep_alive,
    last_group_record,
    phase_of,
    preparing,
    sleep_until,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.model.errors import ErrorCode
from kohort.sim.clock import EPOCH
from kohort.sim.driver import Scenario

AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_a_member_and_silence_removes_it() -> None:
    """Scenario 93. Given Stable, heartbeats every 5000 keep a 10000 session alive; silence of 10000 removes
    the member and starts a rebalance."""
    scenario = stable("a", "b")
    keep_alive(scenario, "a", "b", millis=100_000)
    assert phase_of(scenario) is Phase.STABLE
    scenario.heartbeat("b")
    silence = scenario.now
    keep_alive(scenario, "a", millis=SESSION - 1)
    assert scenario.members == ["a", "b"]
    sleep_until(scenario, silence + SESSION)
    assert scenario.members == ["a"]
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.heartbeat("b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_possible_heartbeat_counts_in_full() -> None:
    """Scenario 93. A heartbeat one millisecond before the end starts a whole session."""
    scenario = stable("a")
    scenario.sleep(SESSION - 1)
    assert scenario.heartbeat("a") is ErrorCode.NONE
    scenario.sleep(SESSION - 1)
    assert scenario.members == ["a"]
    scenario.sleep(1)
    assert phase_of(scenario) is Phase.EMPTY


def test_a_refused_heartbeat_keeps_nobody_alive() -> None:
    """Scenario 93. The session is extended by a heartbeat in P, C, S, not by one that is refused
    (classic-groups 5.1)."""
    scenario = stable("a")
    scenario.sleep(5_000)
    assert scenario.heartbeat("a", generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert scenario.heartbeat("a", instance="i1") is ErrorCode.UNKNOWN_MEMBER_ID
    scenario.sleep(SESSION - 5_000)
    assert phase_of(scenario) is Phase.EMPTY


def test_a_heartbeat_that_comes_as_a_command_is_answered_alike() -> None:
    """Scenario 93. However it comes in, a heartbeat is the same request."""
    scenario = stable("a", "b")
    scenario.sleep(9_999)
    assert beat(scenario, "a") is ErrorCode.NONE
    assert beat(scenario, "a", generation=7) is ErrorCode.ILLEGAL_GENERATION
    scenario.sleep(1)
    assert scenario.members == ["a"]
    assert beat(scenario, "a") is AGAIN
    assert beat(scenario, "b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_while_members_join_again_tells_to_join_and_counts() -> None:
    """Scenario 94. Given PreparingRebalance, a heartbeat gets 27 and still extends the session."""
    scenario = preparing("a", "b")
    start = scenario.now
    scenario.sleep(6_000)
    assert scenario.heartbeat("b") is AGAIN
    sleep_until(scenario, start + SESSION)
    assert "a" not in scenario.members
    sleep_until(scenario, start + 6_000 + SESSION - 1)
    assert "b" in scenario.members
    sleep_until(scenario, start + 6_000 + SESSION)
    assert "b" not in scenario.members


def test_a_heartbeat_while_the_assignment_is_awaited_is_normal() -> None:
    """Scenario 95. Given CompletingRebalance, a heartbeat gets 0 (and extends the session)."""
    scenario = completing("a", "b")
    start = scenario.now
    scenario.sleep(6_000)
    assert scenario.heartbeat("a") is ErrorCode.NONE
    sleep_until(scenario, start + SESSION)
    assert scenario.members == ["a"]
    sleep_until(scenario, start + 6_000 + SESSION)
    assert phase_of(scenario) is Phase.EMPTY


def test_who_waits_for_a_join_cannot_be_silent() -> None:
    """Scenario 96. Given a member with a parked rejoin, when its session deadline passes, then it is not
    removed and its session restarts at join completion."""
    scenario = Scenario.stable(a=10_000, b=60_000)
    of_a = scenario.join("a")
    scenario.sleep(2 * SESSION)
    assert scenario.is_parked(of_a)
    assert scenario.members == ["a", "b"]
    scenario.join("b")
    assert scenario.replies[of_a] == joined(scenario, "a", leader="a", generation=2, listed="a b")
    scenario.sleep(SESSION - 1)
    assert scenario.members == ["a", "b"]
    scenario.sleep(1)
    assert scenario.members == ["b"]


def test_who_waits_for_its_assignment_cannot_be_silent() -> None:
    """Scenario 97. Given a parked sync, when the session deadline passes, then the member stays (and its
    session restarts with the answer)."""
    scenario = Scenario()
    scenario.join("a", session_timeout=60_000)
    scenario.join("b", session_timeout=10_000)
    sleep_until(scenario, 6_000)
    of_b = scenario.sync("b")
    scenario.sleep(2 * SESSION)
    assert scenario.is_parked(of_b)
    assert scenario.members == ["a", "b"]
    scenario.sync("a")
    assert scenario.replies[of_b] == assigned(b"for-b")
    scenario.sleep(SESSION - 1)
    assert scenario.members == ["a", "b"]
    scenario.sleep(1)
    assert scenario.members == ["a"]


@pytest.mark.parametrize("group", ["stable", "preparing"])
def test_a_commit_is_a_sign_of_life(group: str) -> None:
    """Scenario 98. Given OffsetCommit in Stable, then the session is extended (in PreparingRebalance too,
    classic-groups 5.2)."""
    scenario = stable("a", "b") if group == "stable" else preparing("a", "b")
    start = scenario.now
    scenario.sleep(6_000)
    scenario.commit("b", {("t", 0): 1})
    sleep_until(scenario, start + 6_000 + SESSION - 1)
    assert "b" in scenario.members
    assert "a" not in scenario.members
    sleep_until(scenario, start + 6_000 + SESSION)
    assert "b" not in scenario.members


def test_a_refused_commit_is_no_sign_of_life() -> None:
    """Scenario 98. Only an accepted commit counts: not one of another generation, not one in
    CompletingRebalance (classic-groups 5.2)."""
    scenario = stable("a", "b")
    start = scenario.now
    scenario.sleep(6_000)
    scenario.commit("b", {("t", 0): 1}, generation=0)
    sleep_until(scenario, start + SESSION)
    assert "b" not in scenario.members
    waiting = completing("a", "b")
    start = waiting.now
    waiting.sleep(6_000)
    waiting.commit("b", {("t", 0): 1})
    sleep_until(waiting, start + SESSION)
    assert phase_of(waiting) is Phase.EMPTY


def test_a_fetch_of_offsets_is_no_sign_of_life() -> None:
    """Scenario 98. OffsetFetch does not extend it."""
    scenario = stable("a")
    scenario.sleep(6_000)
    scenario.fetch(("t", 0))
    scenario.sleep(SESSION - 6_000)
    assert phase_of(scenario) is Phase.EMPTY


def test_after_its_first_generation_a_member_has_its_own_session() -> None:
    """Scenario 99. Given a new member after join completion, then the 300000 timeout no longer applies and
    its own session timeout does."""
    scenario = completing("a")
    scenario.sleep(SESSION - 1)
    assert scenario.members == ["a"]
    scenario.sleep(1)
    assert phase_of(scenario) is Phase.EMPTY


def test_a_session_longer_than_five_minutes_is_not_cut_short() -> None:
    """Scenario 99. The timer of a new member is replaced: it must never run (classic-groups 2.4)."""
    scenario = stable("a", session_timeout=900_000)
    start = scenario.now
    sleep_until(scenario, NEW_MEMBER + 1_000)
    assert phase_of(scenario) is Phase.STABLE
    sleep_until(scenario, start + 899_999)
    assert phase_of(scenario) is Phase.STABLE
    sleep_until(scenario, start + 900_000)
    assert phase_of(scenario) is Phase.EMPTY


def test_when_the_last_member_expires_an_empty_generation_is_stored() -> None:
    """Scenario 100. Given the last member expires, then Empty, generation +1, record with protocol null and
    type kept."""
    scenario = stable("a")
    start = scenario.now
    scenario.sleep(SESSION)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
    record = last_group_record(scenario)
    assert (record.protocol_type, record.generation) == ("consumer", 2)
    assert (record.protocol, record.leader) == (None, None)
    assert list(record.members) == []
    assert record.current_state_timestamp == EPOCH + start + SESSION


def test_two_sessions_that_end_in_one_moment_make_one_generation() -> None:
    """Scenario 100. The way Stable → Preparing → Empty increments the generation once
    (classic-groups 2.2)."""
    scenario = stable("a", "b", "c")
    scenario.sleep(SESSION)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
    scenario.sleep(2 * REBALANCE)
    assert scenario.group.generation == 2


def test_a_session_and_a_sync_that_end_in_one_moment_make_one_generation() -> None:
    """Scenario 100. A cancelled timer never runs, even if it already expired and is queued
    (classic-groups 2.4)."""
    scenario = completing("a", "b", session_timeout=REBALANCE)
    scenario.sleep(REBALANCE)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
