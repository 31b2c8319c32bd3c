"""Members that join again, and the rebalances that follow (classic-groups 3.5 to 3.7, 12)."""

import pytest
from tests.scenario.groups.story import (
    ON_T,
    REBALANCE,
    SESSION,
    completing,
    joined,
    keep_alive,
    names_listed,
    phase_of,
    preparing,
    refused_sync,
    sleep_until,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.events import RebalanceStarted
from kohort.model.errors import ErrorCode
from kohort.sim.driver import Scenario


def test_a_leader_that_joins_again_wants_a_rebalance() -> None:
    """Scenario 39. Given Stable, when the leader rejoins unchanged, then PreparingRebalance."""
    scenario = stable("a", "b")
    request = scenario.join("a")
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.group.generation == 1  # the previous one is still current


def test_a_follower_that_joins_again_unchanged_is_answered_at_once() -> None:
    """Scenario 40. Given Stable, when a follower rejoins unchanged, then an immediate answer with current
    generation, no members, no rebalance."""
    scenario = stable("a", "b")
    request = scenario.join("b")
    assert scenario.replies[request] == joined(scenario, "b", leader="a", generation=1)
    assert phase_of(scenario) is Phase.STABLE


def test_another_order_of_the_same_protocols_is_a_change() -> None:
    """Scenario 41. Given Stable, when a follower rejoins with the same protocols in another order, then a
    rebalance."""
    scenario = stable("a", "b", protocols=["range", "roundrobin"])
    request = scenario.join("b", protocols=["roundrobin", "range"])
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


@pytest.mark.parametrize("protocols", [["range"], ["range", "roundrobin", "sticky"]])
def test_a_shorter_or_longer_list_is_a_change(protocols: list[str]) -> None:
    """Scenario 41. The request's ordered list must equal the stored one: same length (classic-groups 3.5)."""
    scenario = stable("a", "b", protocols=["range", "roundrobin"])
    scenario.join("b", protocols=protocols)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_other_metadata_is_a_change() -> None:
    """Scenario 42. Given Stable, when a follower rejoins with changed metadata bytes, then a rebalance."""
    scenario = stable("a", "b")
    request = scenario.join("b", protocols=[("range", ON_T + b"\x00")])
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_a_follower_that_joins_again_unchanged_keeps_its_old_timeout() -> None:
    """Scenario 43. Given Stable follower rejoining unchanged but with a new session timeout, then the old
    timeout stays in effect, and no timer is touched."""
    scenario = stable("a", "b")
    start = scenario.now
    keep_alive(scenario, "a", millis=5_000)
    request = scenario.join("b", session_timeout=60_000, rebalance_timeout=90_000)
    assert scenario.replies[request] == joined(scenario, "b", leader="a", generation=1)
    assert scenario.group.rebalance_timeout_ms == REBALANCE
    keep_alive(scenario, "a", millis=SESSION - 5_001)
    assert scenario.members == ["a", "b"]
    sleep_until(scenario, start + SESSION)
    assert scenario.members == ["a"]


def test_a_leader_that_repeats_its_join_gets_the_same_answer() -> None:
    """Scenario 44. Given CompletingRebalance, when the leader repeats its join unchanged, then the same
    generation and the full list are returned."""
    scenario = completing("a", "b")
    request = scenario.join("a")
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=1, listed="a b")
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE


def test_a_follower_that_repeats_its_join_gets_the_same_answer() -> None:
    """Scenario 45. Given CompletingRebalance, when a follower repeats unchanged, then same generation, empty
    list."""
    scenario = completing("a", "b")
    request = scenario.join("b")
    assert scenario.replies[request] == joined(scenario, "b", leader="a", generation=1)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_change_while_the_generation_waits_for_its_assignment_starts_over(name: str) -> None:
    """Scenario 45. In CompletingRebalance changed metadata is a new rebalance (classic-groups 2.3)."""
    scenario = completing("a", "b")
    request = scenario.join(name, changed=True)
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_a_new_member_ends_the_sync_phase_of_the_others() -> None:
    """Scenario 46. Given CompletingRebalance with two parked syncs, when a new member joins (v3), then both
    syncs get 27 and assignments are reset."""
    scenario = stable("a", "b", "c")
    for name in "abc":
        scenario.join(name)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE
    assert {member.assignment for member in scenario.group.members.values()} == {
        b"for-a",
        b"for-b",
        b"for-c",
    }  # kept when coming from Stable
    syncs = [scenario.sync("b"), scenario.sync("c")]
    request = scenario.join("d", version=3)
    assert [scenario.replies[sync] for sync in syncs] == [refused_sync(ErrorCode.REBALANCE_IN_PROGRESS)] * 2
    assert [member.assignment for member in scenario.group.members.values()] == [b""] * 4
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_who_got_27_for_its_parked_sync_has_a_fresh_session() -> None:
    """Scenario 46. Answered syncs re-arm their members' sessions, and nobody else's (classic-groups 3.6)."""
    scenario = completing("a", "b", "c")
    start = scenario.now
    scenario.sync("b")
    scenario.sync("c")
    scenario.sleep(6_000)
    scenario.join("d", version=3)
    sleep_until(scenario, start + SESSION - 1)
    assert len(scenario.group.members) == 4
    sleep_until(scenario, start + SESSION)
    assert scenario.members[:2] == ["b", "c"]  # "a" had no sync parked
    sleep_until(scenario, start + 6_000 + SESSION - 1)
    assert len(scenario.group.members) == 3
    sleep_until(scenario, start + 6_000 + SESSION)
    assert scenario.members == ["d"]


def test_the_last_to_join_again_wakes_them_all() -> None:
    """Scenario 47. Given two members and a third joining Stable, when both rejoin, then all three are
    answered at once with generation +1."""
    scenario = stable("a", "b")
    of_c = scenario.join("c")
    of_a = scenario.join("a")
    assert scenario.is_parked(of_a)
    assert scenario.is_parked(of_c)
    of_b = scenario.join("b")
    assert scenario.replies[of_a] == joined(scenario, "a", leader="a", generation=2, listed="a b c")
    assert scenario.replies[of_b] == joined(scenario, "b", leader="a", generation=2)
    assert scenario.replies[of_c] == joined(scenario, "c", leader="a", generation=2)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE


def test_who_does_not_join_again_in_time_is_no_member_any_more() -> None:
    """Scenario 48. Given a dynamic member that does not rejoin, when the rebalance timeout fires, then it is
    removed and its heartbeat gets 25."""
    scenario = stable("a", "b")
    request = scenario.join("a")
    keep_alive(scenario, "b", millis=REBALANCE - 1)
    assert scenario.is_parked(request)
    assert scenario.heartbeat("b") is ErrorCode.REBALANCE_IN_PROGRESS
    scenario.sleep(1)
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=2, listed="a")
    assert scenario.heartbeat("b") is ErrorCode.UNKNOWN_MEMBER_ID
    scenario.sync("a")
    keep_alive(scenario, "a", millis=3 * SESSION)  # no timer of the one who is gone does anything
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.group.generation == 2


def test_a_leader_that_does_not_join_again_leads_no_more() -> None:
    """Scenario 49. Given the absent dynamic member was leader, then a joined member is leader and gets the
    list."""
    scenario = stable("a", "b", "c")
    of_b = scenario.join("b", changed=True)
    of_c = scenario.join("c")
    keep_alive(scenario, "a", millis=REBALANCE)
    assert scenario.leader == "b"
    assert names_listed(scenario, of_b) == {"b", "c"}
    assert scenario.replies[of_c] == joined(scenario, "c", leader="b", generation=2)
    assert scenario.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts() -> None:
    """Scenario 50. Given members with rebalance timeouts 5000 and 20000, then the join timer uses 20000."""
    scenario = Scenario()
    scenario.join("a", rebalance_timeout=5_000, session_timeout=60_000)
    scenario.join("b", rebalance_timeout=20_000, session_timeout=60_000)
    scenario.settle()
    request = scenario.join("a")
    scenario.sleep(19_999)
    assert scenario.is_parked(request)
    scenario.sleep(1)
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=2, listed="a")


def test_a_member_that_joins_twice_counts_once() -> None:
    """Scenario 51. Given PreparingRebalance, when a parked member joins again, then it counts once and only
    the newest request is answered on completion."""
    scenario = stable("a", "b", "c")
    older = scenario.join("a")
    scenario.join("b")
    newer = scenario.join("a")
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE  # "c" is missing, though three joins have come
    assert scenario.is_parked(newer)
    scenario.join("c")
    assert scenario.replies[newer] == joined(scenario, "a", leader="a", generation=2, listed="a b c")
    # The older request may be dropped, or answered with 27: its connection is dead.
    assert scenario.is_parked(older) or scenario.error(older) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_parked_member_that_joins_with_other_metadata_is_taken_at_its_last_word() -> None:
    """Scenario 51. The newest protocols and timeouts are in effect (classic-groups 3.6)."""
    scenario = stable("a", "b")
    scenario.join("a")
    newer = scenario.join("a", protocols=[("range", b"newer")], rebalance_timeout=45_000)
    scenario.join("b")
    assert {each.metadata for each in scenario.replies[newer].members} == {b"newer", ON_T}
    assert scenario.group.rebalance_timeout_ms == 45_000


def test_the_silent_first_member_does_not_hold_up_the_others() -> None:
    """Scenario 52. Given the first member expires while new members are parked, then the join completes as
    soon as all remaining are parked."""
    scenario = stable("a")
    start = scenario.now
    of_b = scenario.join("b")
    of_c = scenario.join("c")
    sleep_until(scenario, start + SESSION - 1)
    assert scenario.is_parked(of_b)
    sleep_until(scenario, start + SESSION)
    assert scenario.replies[of_b] == joined(scenario, "b", leader="b", generation=2, listed="b c")
    assert scenario.replies[of_c] == joined(scenario, "c", leader="b", generation=2)


def test_the_join_timer_of_a_finished_join_phase_never_fires() -> None:
    """Scenario 47. Cancelled when the join phase completes (classic-groups 2.4)."""
    scenario = stable("a", "b")
    scenario.join("a")
    scenario.sleep(5_000)
    scenario.join("b")
    scenario.sync_all()
    keep_alive(scenario, "a", "b", millis=2 * REBALANCE)
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.group.generation == 2


def test_a_rejoin_overwrites_the_timeouts() -> None:
    """Scenario 43. A rejoin that is not answered at once overwrites both timeouts (classic-groups 3.6, 10
    #7)."""
    scenario = stable("a", "b")
    scenario.join("a", session_timeout=20_000, rebalance_timeout=50_000)
    scenario.join("b", changed=True, session_timeout=40_000)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE
    assert scenario.group.rebalance_timeout_ms == 50_000
    start = scenario.now
    sleep_until(scenario, start + 19_999)
    assert scenario.members == ["a", "b"]
    sleep_until(scenario, start + 20_000)
    assert scenario.members == ["b"]


def test_a_rejoin_does_not_change_where_a_member_is_said_to_be() -> None:
    """Scenario 39. Client id and host are fixed when the member is first created (classic-groups 2.1)."""
    scenario = stable("a", "b", client_host="/10.0.0.5")
    scenario.join("a", client_id="other", client_host="/10.0.0.6")
    scenario.join("b", client_id="other", client_host="/10.0.0.6")
    described = scenario.replies[scenario.admin.describe()].members
    assert {(each.client_id, each.client_host) for each in described} == {
        ("a", "/10.0.0.5"),
        ("b", "/10.0.0.5"),
    }


def test_while_members_join_the_old_generation_is_current() -> None:
    """Scenario 39. During PreparingRebalance the previous generation counts for heartbeats and commits."""
    scenario = preparing("a", "b")
    assert scenario.heartbeat("a", generation=1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scenario.heartbeat("a", generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert len(scenario.why(RebalanceStarted)) == 2
