"""Heartbeats and the sessions they keep."""

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Heartbeat
from kohort.groups.replies import HeartbeatReply
from kohort.model.errors import ErrorCode
from kohort.sim.driver import Scenario


def test_who_is_unknown_is_told_so() -> None:
    scenario = Scenario()
    assert scenario.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scenario.heartbeat("a", group="") is ErrorCode.INVALID_GROUP_ID
    scenario.join_once("a")
    assert scenario.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID
    scenario.commit(None, {("t", 0): 1}, group="")
    assert scenario.heartbeat("a", group="") is ErrorCode.INVALID_GROUP_ID


def test_generation_and_instance_are_checked() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i")
    scenario.settle()
    assert scenario.heartbeat("a", generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert scenario.heartbeat("a", instance="other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scenario.heartbeat("a", member_id="other") is ErrorCode.FENCED_INSTANCE_ID
    assert scenario.heartbeat("a", instance=None) is ErrorCode.NONE
    assert scenario.heartbeat("a") is ErrorCode.NONE


def test_the_answer_depends_on_the_phase() -> None:
    scenario = Scenario()
    scenario.join("a", rebalance_timeout=60_000)
    assert scenario.heartbeat("a", generation=0) is ErrorCode.REBALANCE_IN_PROGRESS
    scenario.sleep(3_000)
    assert scenario.is_in(Phase.COMPLETING_REBALANCE)
    assert scenario.heartbeat("a") is ErrorCode.NONE
    scenario.sync("a")
    assert scenario.heartbeat("a") is ErrorCode.NONE
    scenario.unload()
    assert scenario.heartbeat("a") is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_beating_in_time_keeps_a_member_and_emits_nothing() -> None:
    scenario = Scenario.stable(a=10_000)
    told = len(scenario.events)
    for _ in range(20):
        scenario.sleep(9_999)
        assert scenario.heartbeat("a") is ErrorCode.NONE
    assert len(scenario.events) == told
    assert scenario.members == ["a"]


def test_a_heartbeat_in_a_rebalance_keeps_the_session_too() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    scenario.join("b", changed=True)
    for _ in range(2):
        scenario.sleep(9_999)
        assert scenario.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert scenario.members == ["a", "b"]


def test_a_heartbeat_of_a_member_whose_session_was_suspended_starts_it_again() -> None:
    scenario = Scenario.stable(a=60_000, b=10_000)
    scenario.join("b", changed=True)
    scenario.sleep(20_000)  # b waits for a; its session ended meanwhile, and nothing followed
    assert scenario.heartbeat("b") is ErrorCode.REBALANCE_IN_PROGRESS
    assert scenario.members == ["a", "b"]


def test_it_can_come_as_a_command() -> None:
    scenario = Scenario.stable(a=10_000)
    group = scenario.group
    beat = Heartbeat(
        reply_to=scenario.next_reply_to(),
        group_id=group.group_id,
        member_id=scenario.id_of("a"),
        generation=group.generation,
    )
    assert scenario.replies[scenario.send(beat)] == HeartbeatReply()
