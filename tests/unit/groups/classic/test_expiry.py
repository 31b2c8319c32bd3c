"""What follows when nothing was heard."""

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import ExpireSession, ExpireSync
from kohort.groups.events import GenerationEmptied, IdDropped, MemberRemoved, RebalanceStarted
from kohort.groups.replies import JoinReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, Instant, MemberId
from kohort.sim.driver import Scenario


def completing(*names: str) -> Scenario:
    scenario = Scenario()
    for name in names:
        scenario.join(name, session_timeout=100_000)
    while scenario.is_in(Phase.PREPARING_REBALANCE):
        scenario.sleep(1_000)
    return scenario


def test_a_silent_member_is_removed_and_the_cause_has_the_numbers() -> None:
    scenario = Scenario.stable(a=60_000, b=10_000)
    scenario.sleep(9_999)
    assert scenario.is_in(Phase.STABLE)
    scenario.sleep(1)
    assert scenario.members == ["a"]
    assert scenario.is_in(Phase.PREPARING_REBALANCE)
    assert scenario.why(RebalanceStarted)[-1] == (
        f"session of {scenario.id_of('b')} expired: last heartbeat 10,000 ms ago, timeout 10,000"
    )


def test_a_timer_that_comes_late_tells_how_long_it_really_was() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.node.clock.move_to(Instant(scenario.now + 10_012))
    scenario.sleep(0)
    assert "last heartbeat 10,012 ms ago" in scenario.why(MemberRemoved)[-1]


def test_the_last_member_expires_into_an_empty_generation() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.sleep(10_000)
    assert (scenario.phase, scenario.group.generation) == (Phase.EMPTY, 2)
    assert scenario.group.protocol_type == "consumer"
    assert scenario.why(GenerationEmptied) == ["the last member is gone"]


def test_in_a_rebalance_the_others_go_on_without_the_one_that_expired() -> None:
    scenario = Scenario.stable(a=10_000, b=60_000)
    request = scenario.join("b", changed=True)
    scenario.sleep(10_000)
    assert scenario.replies[request].generation == 2
    assert scenario.members == ["b"]


def test_one_of_several_missing_expires_and_the_others_are_still_waited_for() -> None:
    scenario = Scenario.stable(a=10_000, b=60_000, c=60_000)
    request = scenario.join("b", changed=True)
    scenario.sleep(10_000)
    assert scenario.is_parked(request)
    assert scenario.members == ["b", "c"]


def test_while_the_assignment_is_awaited_an_expiry_starts_over() -> None:
    scenario = Scenario()
    scenario.join("a", session_timeout=60_000)
    scenario.join("b", session_timeout=6_000)
    scenario.sleep(6_000)
    sync = scenario.sync("a", {})
    scenario.sleep(6_000)
    assert scenario.error(sync) is ErrorCode.NONE
    assert scenario.members == ["a"]


def test_whoever_waits_for_us_does_not_expire() -> None:
    scenario = Scenario.stable(a=60_000, b=10_000)
    request = scenario.join("b", changed=True)
    scenario.sleep(15_000)
    assert "b" in scenario.members
    scenario.join("a")
    assert scenario.replies[request].generation == 2
    scenario.sleep(10_000)  # its session started again with the answer
    assert scenario.members == ["a"]


def test_an_unused_id_is_dropped_after_its_session_timeout() -> None:
    scenario = Scenario()
    scenario.join_once("a", session_timeout=7_000)
    scenario.sleep(7_000)
    assert not scenario.group.pending
    assert scenario.why(IdDropped) == [
        f"id {scenario.id_of('a')} was handed out and not used within 7,000 ms"
    ]
    assert scenario.error(scenario.join_once("a")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unused_id_that_all_waited_for_expires_and_ends_the_wait() -> None:
    scenario = Scenario.stable(a=60_000)
    scenario.join_once("b")
    request = scenario.join("a", changed=True)
    scenario.sleep(10_000)
    assert scenario.replies[request].generation == 2


def test_even_the_initial_delay_ends_when_an_expiry_leaves_nobody_to_wait_for() -> None:
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=60_000))
    scenario.join_once("b")
    request = scenario.join("a")
    scenario.sleep(10_000)
    assert scenario.replies[request].generation == 1


def test_a_new_member_that_sees_no_generation_for_five_minutes_is_removed() -> None:
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=600_000))
    request = scenario.join("a", version=3)
    scenario.sleep(300_000)
    assert scenario.replies[request] == JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert scenario.is_in(Phase.EMPTY)
    assert scenario.why(MemberRemoved)[0].endswith("saw no generation within 300,000 ms")


def test_a_new_member_has_its_own_timeout_from_its_first_generation_on() -> None:
    scenario = Scenario()
    scenario.join("a", rebalance_timeout=60_000)
    scenario.sleep(13_000)
    assert scenario.is_in(Phase.EMPTY)


def test_who_never_syncs_is_removed_after_the_rebalance_timeout() -> None:
    scenario = completing("a", "b")
    scenario.sync("a")
    missing = scenario.id_of("b")
    scenario.sleep(30_000)
    assert scenario.members == ["a"]
    assert scenario.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert scenario.why(RebalanceStarted)[-1] == f"no sync from {missing} within 30,000 ms of generation 1"


def test_if_the_leader_never_syncs_the_others_start_over() -> None:
    scenario = completing("a", "b")
    sync = scenario.sync("b")
    scenario.sleep(30_000)
    assert scenario.error(sync) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scenario.members == ["b"]
    assert scenario.is_in(Phase.PREPARING_REBALANCE)


def test_if_nobody_syncs_the_group_is_empty() -> None:
    scenario = completing("a", "b")
    scenario.sleep(30_000)
    assert (scenario.phase, scenario.group.generation) == (Phase.EMPTY, 2)


def test_if_all_have_synced_nothing_happens() -> None:
    scenario = completing("a", "b")
    scenario.sync_all()
    scenario.sleep(50_000)
    assert scenario.is_in(Phase.STABLE)


def test_replacing_a_static_member_that_had_not_synced_costs_a_rebalance() -> None:
    scenario = Scenario()
    for name in ("a", "b"):
        scenario.join(name, instance=name, session_timeout=100_000)
    scenario.sleep(6_000)
    scenario.sync("a")
    scenario.join("b", member_id="")
    scenario.sync("b")
    assert scenario.is_in(Phase.STABLE)
    scenario.sleep(30_000)
    assert scenario.is_in(Phase.PREPARING_REBALANCE)
    assert scenario.members == ["a", "b"]


def test_a_timer_of_what_is_gone_does_nothing() -> None:
    scenario = Scenario.stable(a=10_000)
    before = scenario.group.image()
    late = Instant(scenario.now)
    scenario.order(ExpireSession(GroupId("x"), MemberId("m"), 1, late))
    scenario.order(ExpireSession(GroupId("g"), MemberId("m"), 1, late))
    scenario.order(ExpireSync(GroupId("x"), Generation(1), 1))
    scenario.order(ExpireSync(GroupId("g"), Generation(0), 1))
    scenario.order(ExpireSync(GroupId("g"), Generation(1), 1))
    assert scenario.group.image() == before
    scenario.unload()
    scenario.order(ExpireSession(GroupId("g"), scenario.id_of("a"), 1, late))
    assert scenario.is_in(Phase.DEAD)


def test_a_sync_timer_in_another_phase_does_nothing() -> None:
    scenario = completing("a", "b")
    scenario.group.pending_sync[MemberId("stale")] = None
    scenario.unload()
    scenario.order(ExpireSync(GroupId("g"), Generation(1), 1))
    assert scenario.is_in(Phase.DEAD)
