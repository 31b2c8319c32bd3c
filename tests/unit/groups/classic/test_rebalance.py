"""Rebalances: prepared, waited for, completed."""

from kohort.groups.classic.transitions import Phase
from kohort.groups.events import GenerationEmptied, GenerationStarted, JoinPhaseExtended
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import ReplyTo
from kohort.records.group_records import GroupMetadataValue
from kohort.records.offsets_topic import decode_value
from kohort.sim.driver import Scenario

DELAY = 3_000


def answered_at(scenario: Scenario, request: ReplyTo) -> int:
    """When a request is answered, to the millisecond."""
    for _ in range(60_000):
        if not scenario.is_parked(request):
            return scenario.now
        scenario.sleep(1)
    raise AssertionError("never")


def test_one_joiner_waits_for_the_initial_delay() -> None:
    scenario = Scenario()
    request = scenario.join("a")
    assert answered_at(scenario, request) == DELAY
    assert scenario.replies[request].generation == 1


def test_a_second_joiner_prolongs_the_delay_once() -> None:
    scenario = Scenario()
    request = scenario.join("a")
    scenario.sleep(1_000)
    scenario.join("b")
    assert answered_at(scenario, request) == 2 * DELAY


def test_the_delay_ends_with_the_rebalance_timeout_whoever_comes() -> None:
    scenario = Scenario()
    request = scenario.join("a", rebalance_timeout=10_000)
    for name in "bcd":
        scenario.sleep(2_500)
        scenario.join(name)
    assert answered_at(scenario, request) == 10_000


def test_with_a_rebalance_timeout_below_the_delay_it_is_not_prolonged() -> None:
    scenario = Scenario()
    request = scenario.join("a", rebalance_timeout=2_000)
    scenario.sleep(1_000)
    scenario.join("b", rebalance_timeout=2_000)
    assert answered_at(scenario, request) == DELAY


def test_without_a_delay_the_first_joiner_is_answered_at_once() -> None:
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=0))
    assert scenario.replies[scenario.join("a")].generation == 1
    assert scenario.now == 0


def test_a_group_that_refills_waits_again_and_longer_for_more() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.leave("a")
    start = scenario.now
    request = scenario.join("b")
    scenario.sleep(1_000)
    scenario.join("c")
    assert answered_at(scenario, request) == start + 2 * DELAY


def test_everyone_leaving_in_the_initial_delay_ends_in_an_empty_generation() -> None:
    scenario = Scenario()
    scenario.join("a")
    scenario.leave("a")
    assert scenario.is_in(Phase.PREPARING_REBALANCE)
    scenario.sleep(DELAY)
    assert (scenario.phase, scenario.group.generation) == (Phase.EMPTY, 1)
    value = scenario.log[-1].value
    assert value is not None
    stored = decode_value(GroupMetadataValue, value)
    assert (stored.protocol_type, stored.protocol, stored.leader) == ("consumer", None, None)
    assert scenario.why(GenerationEmptied) == [
        "the initial delay of 3,000 ms passed with 0 members; 27,000 ms could still be waited"
    ]


def test_all_are_answered_when_the_last_has_joined() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    c = scenario.join("c")
    a = scenario.join("a")
    assert scenario.is_parked(a)
    b = scenario.join("b")
    assert {scenario.replies[each].generation for each in (a, b, c)} == {2}
    assert scenario.why(GenerationStarted)[-1] == "all 3 members had joined"


def test_who_does_not_rejoin_is_removed_when_the_longest_rebalance_timeout_has_passed() -> None:
    scenario = Scenario()
    scenario.join("a", rebalance_timeout=5_000, session_timeout=60_000)
    scenario.join("b", rebalance_timeout=20_000, session_timeout=60_000)
    scenario.settle()
    start = scenario.now
    request = scenario.join("b", changed=True)
    assert answered_at(scenario, request) == start + 20_000
    assert scenario.members == ["b"]
    assert scenario.leader == "b"
    assert scenario.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scenario.why(GenerationStarted)[-1] == (
        "the rebalance timeout of 20,000 ms passed: 1 of 2 members had joined"
    )


def test_absent_static_members_stay_and_somebody_present_leads() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i", session_timeout=60_000)
    scenario.join("b", session_timeout=60_000)
    scenario.settle()
    request = scenario.join("b", changed=True)
    scenario.sleep(30_000)
    assert scenario.members == ["a", "b"]
    assert scenario.leader == "b"
    assert len(scenario.replies[request].members) == 2
    assert scenario.heartbeat("a", generation=1) is ErrorCode.ILLEGAL_GENERATION


def test_with_only_absent_static_members_the_join_phase_goes_on() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i", session_timeout=100_000)
    scenario.join("b", session_timeout=100_000)
    scenario.settle()
    scenario.leave("b")
    scenario.sleep(30_000)
    assert scenario.is_in(Phase.PREPARING_REBALANCE)
    assert scenario.group.generation == 1
    assert scenario.why(JoinPhaseExtended) == [
        "the rebalance timeout of 30,000 ms passed: 0 of 1 members had joined"
    ]
    scenario.sleep(70_000)
    assert scenario.is_in(Phase.EMPTY)


def test_a_negative_rebalance_timeout_counts_as_none_and_the_phase_cannot_spin() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i", rebalance_timeout=-5)
    scenario.sleep(3_000)  # joined; the sync timer fires at once
    assert scenario.is_in(Phase.EMPTY)
    scenario.join("a", member_id="")
    scenario.sleep(3_000)
    assert scenario.group.generation == 4  # two joined, two emptied


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


def test_a_pending_id_is_waited_for() -> None:
    scenario = Scenario.stable(a=30_000)
    scenario.join_once("b")
    request = scenario.join("a", changed=True)
    assert scenario.is_parked(request)
    scenario.join_once("b")
    assert scenario.replies[request].generation == 2
    assert scenario.members == ["a", "b"]


def test_when_time_is_up_a_pending_id_is_not_waited_for() -> None:
    scenario = Scenario.stable(a=60_000)
    scenario.join_once("b", session_timeout=60_000)
    request = scenario.join("a", changed=True)
    scenario.sleep(30_000)
    assert scenario.replies[request].generation == 2
    assert len(scenario.group.pending) == 1
    scenario.join_once("b")
    assert scenario.is_in(Phase.PREPARING_REBALANCE)


def test_a_leaver_leaves_only_a_pending_id_behind() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.join_once("b")
    scenario.leave("a")
    assert (scenario.phase, scenario.group.generation) == (Phase.EMPTY, 2)
    assert scenario.group.pending
