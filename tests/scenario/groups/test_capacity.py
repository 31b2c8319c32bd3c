"""``group.max.size`` (classic-groups 3.3, 12)."""

from tests.scenario.groups.story import (
    REBALANCE,
    await_generation,
    joined,
    names_listed,
    phase_of,
    refused_join,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.sim.driver import Scenario

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


def at_most(members: int) -> GroupSettings:
    return GroupSettings(max_size=members)


def test_a_full_stable_group_takes_nobody() -> None:
    """Scenario 58. Given max 2 and Stable with 2 members, when a third joins, then 81 with member id
    ``""``."""
    scenario = stable("a", "b", settings=at_most(2))
    for version in (3, 9):
        request = scenario.join_once("c", version=version)
        assert scenario.replies[request] == refused_join(FULL, "")
    static = scenario.join_once("s", instance="i1")
    assert scenario.replies[static] == refused_join(FULL, "")
    assert phase_of(scenario) is Phase.STABLE
    assert not scenario.group.pending
    assert scenario.members == ["a", "b"]


def test_a_full_group_still_answers_its_members() -> None:
    """Scenario 58. In Stable an id that is a member is always accepted (classic-groups 3.3)."""
    scenario = stable("a", "b", settings=at_most(2))
    assert scenario.error(scenario.join("b")) is ErrorCode.NONE
    scenario.join("a")
    of_b = scenario.join("b")
    assert scenario.replies[of_b] == joined(scenario, "b", leader="a", generation=2)


def test_ids_are_handed_out_without_counting_but_members_are_counted() -> None:
    """Scenario 59. Given max 2, when three v4 clients get ids, then the third real join gets 81 and its
    pending id is gone."""
    scenario = Scenario(at_most(2))
    for name in "abc":
        assert scenario.error(scenario.join_once(name)) is ErrorCode.MEMBER_ID_REQUIRED
    assert len(scenario.group.pending) == 3
    first, second = scenario.join_once("a"), scenario.join_once("b")
    third = scenario.join_once("c")
    assert scenario.replies[third] == refused_join(FULL, "")
    assert not scenario.group.pending
    await_generation(scenario)
    assert scenario.replies[first] == joined(scenario, "a", leader="a", generation=1, listed="a b")
    assert scenario.replies[second] == joined(scenario, "b", leader="a", generation=1)


def test_an_id_that_was_turned_away_is_unknown_when_it_comes_again() -> None:
    """Scenario 59. The id is dropped: when there is room again, it is nobody's."""
    scenario = Scenario(at_most(1))
    scenario.join_once("a")
    scenario.join_once("b")
    scenario.join_once("a")
    assert scenario.error(scenario.join_once("b")) is FULL
    scenario.leave("a")
    again = scenario.join_once("b")
    assert scenario.replies[again] == refused_join(ErrorCode.UNKNOWN_MEMBER_ID, scenario.id_of("b"))


def test_a_handed_out_id_that_is_turned_away_is_not_waited_for() -> None:
    """Scenario 59. After an 81 in PreparingRebalance completion is checked again (classic-groups 10 #14)."""
    scenario = stable("a", "b", settings=at_most(3))
    scenario.join_once("c")
    scenario.join_once("d")
    scenario.join_once("c")  # the third member
    of_a, of_b = scenario.join("a"), scenario.join("b")
    assert scenario.is_parked(of_a)  # the id of "d" is out
    of_d = scenario.join_once("d")
    assert scenario.replies[of_d] == refused_join(FULL, "")
    assert scenario.replies[of_a] == joined(scenario, "a", leader="a", generation=2, listed="a b c")
    assert scenario.error(of_b) is ErrorCode.NONE


def test_a_group_that_was_loaded_too_large_rebalances_and_the_last_one_is_turned_away() -> None:
    """Scenario 60. Given max 2 and 3 loaded members, then the group is PreparingRebalance after load; the
    third rejoiner gets 81."""
    scenario = stable("a", "b", "c")
    scenario.restart(at_most(2))
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.group.generation == 1
    assert scenario.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    of_c, of_b = scenario.join("c"), scenario.join("b")
    of_a = scenario.join("a")
    assert scenario.replies[of_a] == refused_join(FULL, "")
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE  # nobody else is missing (classic-groups 10 #14)
    assert scenario.replies[of_c].generation == 2
    assert names_listed(scenario, of_c) | names_listed(scenario, of_b) == {"b", "c"}
    assert scenario.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_a_group_that_was_loaded_too_large_can_commit() -> None:
    """Scenario 60. A rebalance is prepared so that members can commit before the last are rejected
    (classic-groups 7.4)."""
    scenario = stable("a", "b", "c")
    scenario.restart(at_most(2))
    request = scenario.commit("c", {("t", 0): 5})
    assert scenario.replies[request].rows[0].error is ErrorCode.NONE


def test_a_parked_member_of_a_full_group_may_join_again() -> None:
    """Scenario 61. Given max reached in PreparingRebalance, when an already parked member rejoins, then
    accepted."""
    scenario = stable("a", "b", settings=at_most(2))
    scenario.join("a")
    assert scenario.error(scenario.join_once("c")) is ErrorCode.MEMBER_ID_REQUIRED  # one join is parked
    scenario.join("b")
    again = scenario.join("a")
    assert scenario.is_parked(again)
    scenario.leave("c")
    assert scenario.replies[again] == joined(scenario, "a", leader="a", generation=2, listed="a b")


def test_who_joins_late_is_the_one_who_is_kicked() -> None:
    """Scenario 61. In PreparingRebalance the late rejoiners of an oversized group are kicked
    (classic-groups 3.3)."""
    scenario = stable("a", "b", settings=at_most(2))
    scenario.join("a")
    scenario.join_once("c")  # one join is parked, so an id is handed out
    scenario.join_once("c")
    late = scenario.join("b")
    assert scenario.replies[late] == refused_join(FULL, "")
    assert scenario.members == ["a", "c"]
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE
    assert scenario.group.generation == 2


def test_a_static_member_cannot_restart_in_a_full_group() -> None:
    """Scenario 62. Given max 1 and one static Stable member, when it restarts with id ``""``, then 81."""
    scenario = stable("s", settings=at_most(1), instance="i1")
    before = scenario.id_of("s")
    request = scenario.join_once("s", member_id="")
    assert scenario.replies[request] == refused_join(FULL, "")
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.heartbeat("s", member_id=before) is ErrorCode.NONE


def test_an_empty_group_is_never_full() -> None:
    """Scenario 59. In Empty everyone is accepted; pending ids are not counted (classic-groups 3.3)."""
    scenario = Scenario(at_most(1))
    for name in "abcd":
        assert scenario.error(scenario.join_once(name)) is ErrorCode.MEMBER_ID_REQUIRED
    scenario.sleep(REBALANCE)
    assert phase_of(scenario) is Phase.EMPTY
