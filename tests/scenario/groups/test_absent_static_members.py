"""Static members that stay away, and the edges of a restart (classic-groups 3.7, 3.8, 12)."""

import pytest
from tests.scenario.groups.story import (
    REBALANCE,
    SESSION,
    joined,
    keep_alive,
    last_group_record,
    names_listed,
    phase_of,
    sleep_until,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.events import JoinPhaseExtended
from kohort.model.errors import ErrorCode
from kohort.model.ids import InstanceId
from kohort.sim.driver import Scenario

I1 = InstanceId("i1")


def with_a_static_member(session: int, leader: str = "a") -> Scenario:
    """Stable: "a" (dynamic) and "s" (static, with this session timeout); the named one leads."""
    scenario = Scenario()
    if leader == "a":
        scenario.join("a")
    scenario.join("s", instance=I1, session_timeout=session)
    if leader != "a":
        scenario.join("a")
    scenario.settle()
    return scenario


def test_an_absent_static_member_stays() -> None:
    """Scenario 74. Given a static member absent at join timeout, then it stays, is in the leader's list, and
    its stale heartbeat gets 22."""
    scenario = with_a_static_member(session=60_000)
    request = scenario.join("a")
    scenario.sleep(REBALANCE - 1)
    assert scenario.is_parked(request)
    scenario.sleep(1)
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=2, listed="a s")
    assert scenario.heartbeat("s") is ErrorCode.ILLEGAL_GENERATION


def test_only_absent_static_members_means_waiting_again() -> None:
    """Scenario 75. Given all members static and absent at join timeout, then the phase is extended by another
    rebalance timeout, generation unchanged."""
    scenario = Scenario()
    for name in ("s", "t"):
        scenario.join(name, instance=f"i-{name}", session_timeout=600_000)
    scenario.settle()
    start = scenario.now
    scenario.join("c")
    scenario.leave("c")
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    for round_ in (1, 2):
        sleep_until(scenario, start + round_ * REBALANCE - 1)
        assert len(scenario.why(JoinPhaseExtended)) == round_ - 1
        sleep_until(scenario, start + round_ * REBALANCE)
        assert len(scenario.why(JoinPhaseExtended)) == round_
        assert phase_of(scenario) is Phase.PREPARING_REBALANCE
        assert scenario.group.generation == 1
        assert scenario.members == ["s", "t"]
    scenario.sleep(1_000)
    request = scenario.join("t")
    sleep_until(scenario, start + 3 * REBALANCE - 1)
    assert scenario.is_parked(request)
    sleep_until(scenario, start + 3 * REBALANCE)
    assert scenario.replies[request] == joined(scenario, "t", leader="t", generation=2, listed="s t")


def test_waiting_for_absent_static_members_ends_with_their_sessions() -> None:
    """Scenario 75. This repeats until someone joins or sessions expire (classic-groups 3.7)."""
    scenario = Scenario()
    scenario.join("s", instance=I1, session_timeout=45_000)
    scenario.settle()
    start = scenario.now
    scenario.join("c")
    scenario.leave("c")
    sleep_until(scenario, start + 44_999)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    sleep_until(scenario, start + 45_000)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2


def test_an_absent_static_leader_leads_no_more() -> None:
    """Scenario 76. Given the static leader is absent but others joined, then a joined member becomes
    leader."""
    scenario = with_a_static_member(session=60_000, leader="s")
    request = scenario.join("a", changed=True)
    scenario.sleep(REBALANCE)
    assert scenario.leader == "a"
    assert scenario.replies[request].leader == scenario.id_of("a")
    assert names_listed(scenario, request) == {"a", "s"}


def test_a_kept_member_that_stays_silent_is_removed_when_its_session_ends() -> None:
    """Scenario 77. Given a kept absent static member, when neither sync nor heartbeat arrives, then it is
    removed at session or sync expiry and a rebalance follows. (Here: session.)"""
    scenario = with_a_static_member(session=45_000)
    scenario.join("a", rebalance_timeout=60_000)
    keep_alive(scenario, "s", millis=60_000)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE
    start = scenario.now
    scenario.sync("a")
    assert phase_of(scenario) is Phase.STABLE
    keep_alive(scenario, "a", millis=44_999)
    assert scenario.members == ["a", "s"]
    sleep_until(scenario, start + 45_000)
    assert scenario.members == ["a"]
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_a_kept_member_that_stays_silent_is_removed_when_its_sync_is_overdue() -> None:
    """Scenario 77. The same with a session that is longer than the rebalance timeout. (Here: sync.)"""
    scenario = with_a_static_member(session=600_000)
    scenario.join("a")
    scenario.sleep(REBALANCE)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE
    start = scenario.now
    scenario.sync("a")
    keep_alive(scenario, "a", millis=REBALANCE - 1)
    assert scenario.members == ["a", "s"]
    sleep_until(scenario, start + REBALANCE)
    assert scenario.members == ["a"]
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_kept_member_gets_what_the_leader_assigned_to_it_when_it_returns() -> None:
    """Scenario 74. It returns with its instance id only, and syncs into the running generation."""
    scenario = with_a_static_member(session=60_000)
    scenario.join("a")
    scenario.sleep(REBALANCE)
    scenario.sync("a")
    assert phase_of(scenario) is Phase.STABLE
    request = scenario.join_once("s", member_id="")
    assert scenario.replies[request] == joined(scenario, "s", leader="a", generation=2)
    assert scenario.replies[scenario.sync("s")].assignment == b"for-s"


def test_a_returned_member_has_its_old_session_until_it_is_heard_of_again() -> None:
    """Scenario 64. The new id's session is armed with the *old* timeout; then the new one is in effect
    (classic-groups 3.8)."""
    scenario = with_a_static_member(session=SESSION)
    keep_alive(scenario, "a", "s", millis=5_000)
    start = scenario.now
    scenario.join_once("s", member_id="", session_timeout=20_000)
    keep_alive(scenario, "a", millis=SESSION - 1)
    assert scenario.members == ["a", "s"]
    sleep_until(scenario, start + SESSION)
    assert scenario.members == ["a"]


def test_the_first_heartbeat_of_a_returned_member_brings_its_new_session() -> None:
    """Scenario 64. Timeouts of the restart are applied (classic-groups 3.8)."""
    scenario = with_a_static_member(session=SESSION)
    scenario.join_once("s", member_id="", session_timeout=20_000)
    assert scenario.heartbeat("s") is ErrorCode.NONE
    start = scenario.now
    keep_alive(scenario, "a", millis=19_999)
    assert scenario.members == ["a", "s"]
    sleep_until(scenario, start + 20_000)
    assert scenario.members == ["a"]


def test_the_session_of_the_old_id_ends_without_effect() -> None:
    """Scenario 64. The old id's timer may stay; it fires without effect (classic-groups 3.8)."""
    scenario = with_a_static_member(session=SESSION)
    scenario.sleep(5_000)
    scenario.join_once("s", member_id="")
    keep_alive(scenario, "a", "s", millis=3 * SESSION)
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.members == ["a", "s"]


def test_a_restart_does_not_change_where_a_member_is_said_to_be() -> None:
    """Scenario 64. Neither a rejoin nor a static replacement updates client id and host
    (classic-groups 2.1)."""
    scenario = with_a_static_member(session=SESSION)
    scenario.join_once("s", member_id="", client_id="other", client_host="/10.0.0.6")
    [mine] = [each for each in last_group_record(scenario).members if each.group_instance_id == I1]
    assert (mine.client_id, mine.client_host) == ("s", "/127.0.0.1")


def test_a_static_member_that_uses_its_id_is_like_any_other() -> None:
    """Scenario 64. Follower unchanged in Stable: at once; leader: a rebalance (classic-groups 3.8)."""
    scenario = with_a_static_member(session=SESSION)
    request = scenario.join("s")
    assert scenario.replies[request] == joined(scenario, "s", leader="a", generation=1)
    led_by_it = with_a_static_member(session=SESSION, leader="s")
    led_by_it.join("s")
    assert phase_of(led_by_it) is Phase.PREPARING_REBALANCE


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_rebalance_that_starts_before_the_restart_is_stored_leaves_nobody_waiting(is_refused: bool) -> None:
    """Scenario 64. Whatever happens between the append and its completion, one answer comes."""
    scenario = with_a_static_member(session=SESSION)
    scenario.hold_appends()
    request = scenario.join_once("s", member_id="")
    scenario.join("c", version=3)  # a rebalance starts meanwhile
    if is_refused:
        scenario.fail_next_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    scenario.release_appends()
    scenario.sleep(REBALANCE)
    assert not scenario.is_parked(request)
    assert scenario.error(request) is (ErrorCode.NOT_COORDINATOR if is_refused else ErrorCode.NONE)


def test_members_are_removed_though_they_are_static() -> None:
    """Scenario 77. Session expiry in Stable removes a static member like any other (classic-groups 3.8)."""
    scenario = stable("s", instance="i1")
    scenario.sleep(SESSION)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.instances == {}


def test_absent_static_members_without_a_rebalance_timeout_are_not_waited_for_without_a_pause() -> None:
    scenario = Scenario()
    for name in ("a", "b"):
        scenario.join(name, instance=name)
    scenario.settle()
    for name in ("a", "b"):
        scenario.join(name, member_id="", rebalance_timeout=0)
    scenario.leave("b")
    scenario.sleep(500)
    assert scenario.is_in(Phase.PREPARING_REBALANCE)
    assert len(scenario.why(JoinPhaseExtended)) == 6  # at once, then every tenth of a second
