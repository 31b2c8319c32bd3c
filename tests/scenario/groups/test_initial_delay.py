"""The initial delay of a group that was empty (classic-groups 3.9, 12)."""

import pytest
from tests.scenario.groups.story import (
    DELAY,
    NEW_MEMBER,
    SESSION,
    emptied,
    joined,
    last_group_record,
    names_listed,
    phase_of,
    refused_join,
    sleep_until,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.events import InitialDelayExtended
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.sim.clock import EPOCH
from kohort.sim.driver import Scenario


def extensions(scenario: Scenario) -> list[tuple[int, int]]:
    """How often the initial delay was extended: (delay, what could be waited after it)."""
    return [
        (event.delay_ms, event.remaining_ms)
        for event in scenario.events
        if isinstance(event, InitialDelayExtended)
    ]


@pytest.mark.parametrize("version", [3, 9])
def test_a_lone_joiner_is_answered_after_the_delay(version: int) -> None:
    """Scenario 31. Given one joiner, then its answer arrives at 3000, generation 1, it is leader with a
    one-entry member list."""
    scenario = Scenario()
    request = scenario.join("a", version=version)
    sleep_until(scenario, DELAY - 1)
    assert scenario.is_parked(request)
    sleep_until(scenario, DELAY)
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=1, listed="a")
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE


def test_a_second_joiner_prolongs_the_delay_once() -> None:
    """Scenario 32. Given a second joiner at 1000, then both are answered at 6000."""
    scenario = Scenario()
    first = scenario.join("a")
    sleep_until(scenario, 1_000)
    second = scenario.join("b")
    sleep_until(scenario, 5_999)
    assert scenario.is_parked(first)
    assert scenario.is_parked(second)
    sleep_until(scenario, 6_000)
    assert scenario.replies[first] == joined(scenario, "a", leader="a", generation=1, listed="a b")
    assert scenario.replies[second] == joined(scenario, "b", leader="a", generation=1)


def test_the_delay_is_never_longer_than_the_rebalance_timeout() -> None:
    """Scenario 33. Given rebalance timeout 10000 and a joiner in each window, then completion at 10000, not
    later: fires at 3000, 6000, 9000 and completes at 10000."""
    scenario = Scenario()
    first = scenario.join("a", rebalance_timeout=10_000)
    for window, name in enumerate("bcd"):
        sleep_until(scenario, window * DELAY + 1_500)
        scenario.join(name, rebalance_timeout=10_000)
        sleep_until(scenario, (window + 1) * DELAY - 1)
        assert len(extensions(scenario)) == window
        sleep_until(scenario, (window + 1) * DELAY)
        assert len(extensions(scenario)) == window + 1
    scenario.sleep(500)
    last = scenario.join("e", rebalance_timeout=10_000)
    sleep_until(scenario, 9_999)
    assert scenario.is_parked(first)
    sleep_until(scenario, 10_000)
    assert scenario.replies[first].generation == 1
    assert names_listed(scenario, first) == set("abcde")
    assert scenario.error(last) is ErrorCode.NONE
    assert extensions(scenario) == [(3_000, 4_000), (3_000, 1_000), (1_000, 0)]


def test_what_can_be_waited_depends_on_the_first_member_alone() -> None:
    """Scenario 33. The remaining time uses the rebalance timeout known when the first member was added."""
    scenario = Scenario()
    first = scenario.join("a", rebalance_timeout=4_000)
    scenario.join("b", rebalance_timeout=60_000)
    sleep_until(scenario, 3_500)
    scenario.join("c", rebalance_timeout=60_000)
    sleep_until(scenario, 3_999)
    assert scenario.is_parked(first)
    sleep_until(scenario, 4_000)
    assert names_listed(scenario, first) == {"a", "b", "c"}


def test_a_short_rebalance_timeout_allows_no_extension() -> None:
    """Scenario 34. Given rebalance timeout 2000, joiners at 0 and 1000, then completion at 3000."""
    scenario = Scenario()
    first = scenario.join("a", rebalance_timeout=2_000)
    sleep_until(scenario, 1_000)
    second = scenario.join("b", rebalance_timeout=2_000)
    sleep_until(scenario, 2_999)
    assert scenario.is_parked(first)
    sleep_until(scenario, 3_000)
    assert names_listed(scenario, first) == {"a", "b"}
    assert scenario.error(second) is ErrorCode.NONE
    assert extensions(scenario) == []


def test_without_a_delay_nobody_waits() -> None:
    """Scenario 35. Given delay 0, then a single joiner is answered without waiting for rebalance timeout."""
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=0))
    request = scenario.join("a")
    scenario.sleep(1)  # the next tick of the timer
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=1, listed="a")


def test_a_group_that_refills_is_delayed_again_and_prolonged_again() -> None:
    """Scenario 36. Given a group emptied at generation 2 that refills, then the delay applies and is extended
    by a second joiner (N)."""
    scenario = emptied("x")
    start = scenario.now
    first = scenario.join("a")
    sleep_until(scenario, start + 1_000)
    second = scenario.join("b")
    sleep_until(scenario, start + 5_999)
    assert scenario.is_parked(first)
    sleep_until(scenario, start + 6_000)
    assert scenario.replies[first] == joined(scenario, "a", leader="a", generation=3, listed="a b")
    assert scenario.replies[second] == joined(scenario, "b", leader="a", generation=3)


def test_who_comes_in_the_last_window_prolongs_the_next_delay() -> None:
    """Scenario 36. The flag is cleared only on extension: a round that ended with nothing left to wait
    leaves it set for the next refill (classic-groups 3.9)."""
    scenario = Scenario()
    scenario.join("a", rebalance_timeout=2_000)
    scenario.join("b", rebalance_timeout=2_000)  # sets the flag; nothing remains, so it is never cleared
    sleep_until(scenario, 3_000)
    scenario.sync_all()
    scenario.leave("a", "b")
    assert phase_of(scenario) is Phase.EMPTY
    start = scenario.now
    request = scenario.join("c")
    sleep_until(scenario, start + 5_999)
    assert scenario.is_parked(request)
    sleep_until(scenario, start + 6_000)
    assert scenario.error(request) is ErrorCode.NONE


def test_a_joiner_who_leaves_during_the_delay_leaves_it_running() -> None:
    """Scenario 37. Given the only joiner leaves during the initial phase, then nothing until 3000, when the
    group is Empty with generation 1 and a record with null leader is written."""
    scenario = Scenario()
    request = scenario.join("a")
    sleep_until(scenario, 1_000)
    left = scenario.leave("a")
    assert scenario.error(left) is ErrorCode.NONE
    assert scenario.replies[request] == refused_join(ErrorCode.UNKNOWN_MEMBER_ID, "")
    sleep_until(scenario, 2_999)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.group.generation == 0
    sleep_until(scenario, 3_000)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 1
    record = last_group_record(scenario)
    assert (record.protocol_type, record.generation) == ("consumer", 1)
    assert (record.protocol, record.leader) == (None, None)
    assert record.current_state_timestamp == EPOCH + 3_000
    assert list(record.members) == []


def test_a_leave_does_not_end_the_delay_for_those_who_stay() -> None:
    """Scenario 37. During the initial phase everyone having joined never ends the wait by itself
    (classic-groups 3.9)."""
    scenario = Scenario()
    first = scenario.join("a")
    scenario.join_once("b")
    scenario.leave("b")  # an id that was handed out: now everyone has joined
    scenario.join("c")
    scenario.leave("c")
    sleep_until(scenario, 5_999)
    assert scenario.is_parked(first)
    sleep_until(scenario, 6_000)  # "c" had come, so the delay was prolonged
    assert scenario.replies[first] == joined(scenario, "a", leader="a", generation=1, listed="a")


@pytest.mark.parametrize("version", [3, 9])
def test_a_new_member_is_not_kept_waiting_for_longer_than_five_minutes(version: int) -> None:
    """Scenario 38. Given initial delay 600000 and a v3 joiner, when 300000 elapse, then its join gets 25 and
    the group is Empty."""
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=600_000))
    request = scenario.join("a", version=version)
    scenario.sleep(NEW_MEMBER - 1)
    assert scenario.is_parked(request)
    scenario.sleep(1)
    assert scenario.replies[request] == refused_join(ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 1


def test_the_delay_that_was_cut_short_never_fires() -> None:
    """Scenario 38. A cancelled timer must never run (classic-groups 2.4)."""
    settings = GroupSettings(
        initial_rebalance_delay_ms=600_000, offsets_retention_check_interval_ms=100_000_000
    )
    scenario = Scenario(settings)
    scenario.join("a")
    scenario.sleep(NEW_MEMBER)
    assert phase_of(scenario) is Phase.EMPTY
    scenario.sleep(NEW_MEMBER + 1)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 1


def test_an_expired_id_ends_the_delay_when_everyone_else_has_joined() -> None:
    """Scenario 38. A session expiry that makes everyone have joined ends the initial phase at once (N)."""
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=60_000))
    scenario.join_once("b")
    request = scenario.join("a")
    scenario.sleep(SESSION - 1)
    assert scenario.is_parked(request)
    scenario.sleep(1)
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=1, listed="a")


def test_a_rebalance_of_a_group_with_members_has_no_delay() -> None:
    """Scenario 31. The delay applies to every Empty → PreparingRebalance, and to no other way there."""
    scenario = stable("a")
    request = scenario.join("a")  # the leader: a rebalance of one
    assert scenario.replies[request] == joined(scenario, "a", leader="a", generation=2, listed="a")
