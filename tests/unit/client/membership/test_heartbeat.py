"""Heartbeats and the three timers, apart from poll."""

import pytest
from tests.unit.client.membership.stage import Stage

from kohort.client.consumer.settings import ConsumerSettings
from kohort.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
)
from kohort.client.membership.commands import ConnectionLost, EnforceRebalance, RequestFailed, Unsubscribe
from kohort.client.membership.state import NO_GENERATION, ClassicMemberState
from kohort.client.settings import SettingError, backoff_ms
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import GroupId, Instant
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest


def answer_heartbeats(stage: Stage, millis: int, *, polling: bool = True) -> None:
    """Let time pass with a healthy coordinator."""
    for _ in range(millis // 1_000):
        stage.sleep(1_000, polling=polling)
        while stage.waiting(HeartbeatRequest):
            stage.beat()


def test_a_rebalance_waits_for_the_next_poll() -> None:
    """T31 REBALANCE_IN_PROGRESS while STABLE: heartbeats go on, JoinGroup only at the next poll."""
    stage = Stage().stable()
    stage.told_to_rejoin()
    assert stage.membership.state is ClassicMemberState.STABLE
    stage.sleep(3_000)
    stage.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert len(stage.requests(HeartbeatRequest)) == 2
    assert len(stage.requests(JoinGroupRequest)) == 1
    stage.poll()
    assert len(stage.requests(JoinGroupRequest)) == 2


def test_an_echo_of_the_rebalance_that_is_being_joined_is_ignored() -> None:
    """T31 REBALANCE_IN_PROGRESS while PREPARING: ignored."""
    stage = Stage().stable()
    stage.sleep(3_000)
    stage.sleep(3_000)
    stage.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    stage.poll()
    stage.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    stage.answer_join(generation_id=2)
    stage.answer_sync("t-0")
    assert stage.poll()
    assert not stage.membership.rejoin_needed


def test_silence_costs_the_coordinator_not_the_generation() -> None:
    """T32 No heartbeat answer for session.timeout.ms: coordinator unknown, generation kept, resumes."""
    stage = Stage(session_timeout_ms=10_000).stable()
    generation = stage.membership.generation
    stage.sleep(9_999)
    assert not stage.waiting(FindCoordinatorRequest)
    stage.sleep(1)
    assert stage.membership.coordinator is None
    assert stage.waiting(FindCoordinatorRequest), "looked up without a poll"
    assert stage.membership.generation == generation
    stage.find()
    before = len(stage.requests(HeartbeatRequest))
    stage.sleep(3_000)
    assert len(stage.requests(HeartbeatRequest)) == before + 1
    stage.beat()
    assert stage.membership.state is ClassicMemberState.STABLE


def test_failed_heartbeats_back_off_until_one_succeeds() -> None:
    """T33 Failures back off exponentially; a success restores the interval."""
    stage = Stage().stable()
    stage.sleep(3_000)
    pauses = []
    for _ in range(5):
        stage.beat(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        start = stage.now
        while not stage.waiting(HeartbeatRequest):
            stage.sleep(1)
        pauses.append(stage.now - start)
    assert pauses == [100, 200, 400, 800, 1_000]
    stage.beat()
    stage.sleep(1_999)
    assert not stage.waiting(HeartbeatRequest)
    stage.sleep(1_001)
    assert stage.waiting(HeartbeatRequest)


def test_a_stalled_application_is_taken_out_of_the_group() -> None:
    """T34 Past max.poll.interval.ms: one LeaveGroup, CommitFailed, next poll lost(all), join with ""."""
    stage = Stage(max_poll_interval_ms=20_000).stable()
    answer_heartbeats(stage, 21_000, polling=False)
    left = stage.requests(LeaveGroupRequest)
    assert len(left) == 1
    assert left[0].members[0].member_id == "m"
    assert "max.poll.interval.ms" in (left[0].members[0].reason or "")
    assert stage.membership.state is ClassicMemberState.UNJOINED
    assert "max.poll.records" in stage.notes()[-1]
    commit = stage.commit({"t-0": 1}, timeout=1_000)
    error = stage.error_of(commit)
    assert isinstance(error, CommitFailedError)
    assert "max.poll.interval.ms" in error.hint
    assert "max.poll.records" in error.hint
    assert stage.owned == "t-0 t-1", "nobody has been told yet"
    stage.poll()
    assert stage.callbacks[-1] == "lost(t-0 t-1)"
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""
    stage.sleep(20_000)
    assert len(stage.requests(LeaveGroupRequest)) == 1


def test_a_stalled_static_member_says_nothing() -> None:
    """T35 Same stall with a static member: no LeaveGroup, state reset all the same."""
    stage = Stage(group_instance_id="i", max_poll_interval_ms=20_000).stable()
    answer_heartbeats(stage, 20_000, polling=False)
    assert not stage.requests(LeaveGroupRequest)
    assert stage.membership.generation == NO_GENERATION
    assert stage.membership.state is ClassicMemberState.UNJOINED


def test_a_member_that_stalls_without_a_coordinator_is_out_all_the_same() -> None:
    """T35 Same stall with unknown coordinator: no LeaveGroup, state reset all the same."""
    stage = Stage(max_poll_interval_ms=5_000).stable()
    stage.handle(ConnectionLost())
    stage.sleep(5_000)
    assert not stage.requests(LeaveGroupRequest)
    assert stage.membership.state is ClassicMemberState.UNJOINED


def test_a_fenced_member_hears_of_it_at_the_next_poll_and_may_come_back() -> None:
    """T36 FENCED_INSTANCE_ID on heartbeat: raised by the next poll; after that heartbeats start anew."""
    stage = Stage(group_instance_id="i").stable()
    stage.sleep(3_000)
    stage.beat(ErrorCode.FENCED_INSTANCE_ID)
    assert stage.membership.generation == NO_GENERATION
    with pytest.raises(FencedInstanceIdError):
        stage.poll()
    stage.poll()
    assert stage.callbacks[-1] == "lost(t-0 t-1)"
    stage.answer_join(generation_id=2, member_id="m2")
    stage.sleep(3_000)
    assert stage.requests(HeartbeatRequest)[-1].member_id == "m2"


def test_heartbeats_must_fit_into_the_session() -> None:
    """T37 heartbeat.interval.ms >= session.timeout.ms: refused when the member is made."""
    with pytest.raises(SettingError, match=r"heartbeat\.interval\.ms \(10000\)"):
        ConsumerSettings(group_id=GroupId("g"), heartbeat_interval_ms=10_000, session_timeout_ms=10_000)


def test_a_group_needs_a_name() -> None:
    with pytest.raises(SettingError, match="group_id"):
        ConsumerSettings(group_id=GroupId(""))


def test_an_application_that_polls_is_never_stalled() -> None:
    """T38 Coordinator unreachable for long while the application polls: the poll timer never expires."""
    stage = Stage(max_poll_interval_ms=5_000).stable()
    stage.handle(ConnectionLost())
    for _ in range(20):
        stage.sleep(1_000, polling=True)
        if stage.waiting(FindCoordinatorRequest):
            stage.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert stage.membership.state is ClassicMemberState.STABLE
    assert not any("leaving the group" in each for each in stage.notes())


def test_a_slow_answer_does_not_hold_back_the_next_heartbeat() -> None:
    stage = Stage().stable()
    stage.sleep(9_000)
    assert len(stage.waiting(HeartbeatRequest)) == 3


def test_a_poll_sends_the_heartbeat_that_is_due() -> None:
    stage = Stage().stable()
    stage.now += 3_000  # nobody called advance
    stage.poll()
    assert stage.waiting(HeartbeatRequest)


def test_a_heartbeat_the_broker_cannot_serve_is_raised_by_poll() -> None:
    stage = Stage().stable()
    stage.sleep(3_000)
    send = stage.waiting(HeartbeatRequest)[0]
    stage.handle(RequestFailed(send.request_id, KohortError("too old")))
    with pytest.raises(KohortError, match="too old"):
        stage.poll()


def test_a_soft_reset_by_a_heartbeat_keeps_the_id_and_loses_the_partitions() -> None:
    stage = Stage().stable()
    stage.sleep(3_000)
    stage.beat(ErrorCode.ILLEGAL_GENERATION)
    stage.poll()
    assert stage.callbacks[-1] == "lost(t-0 t-1)"
    assert stage.requests(JoinGroupRequest)[-1].member_id == "m"


@pytest.mark.parametrize(
    ("failures", "least", "most"), [(0, 80, 119), (1, 160, 239), (3, 640, 959), (9, 800, 1_000)]
)
def test_backoff_doubles_within_its_jitter_up_to_the_largest(failures: int, least: int, most: int) -> None:
    settings = ConsumerSettings(group_id=GroupId("g"))
    assert backoff_ms(failures, settings, lambda: 0.0) == least
    assert backoff_ms(failures, settings, lambda: 0.9999) == most


def test_backoff_is_constant_where_it_cannot_grow() -> None:
    settings = ConsumerSettings(group_id=GroupId("g"), retry_backoff_ms=500, retry_backoff_max_ms=200)
    assert backoff_ms(7, settings, lambda: 0.9) == 200


def test_most_polls_of_a_settled_member_are_calm_and_keep_it_in_the_group() -> None:
    stage = Stage(max_poll_interval_ms=20_000).stable("t-0")
    stage.poll()
    calm = []
    for _ in range(40):
        answer_heartbeats(stage, 1_000, polling=False)
        stage.poll()
        calm.append(stage.was_calm)
    assert calm.count(True) > calm.count(False)
    assert stage.membership.state is ClassicMemberState.STABLE
    stage.membership.handle(EnforceRebalance(), Instant(stage.now))
    stage.poll()
    assert not stage.was_calm


@pytest.mark.parametrize("how", ["unsubscribe", "close"])
def test_heartbeats_go_on_until_the_last_callback_has_returned(how: str) -> None:
    stage = Stage(max_poll_interval_ms=8_000, session_timeout_ms=6_000).stable("t-0")
    stage.holds_callbacks = True
    stage.handle(Unsubscribe()) if how == "unsubscribe" else stage.close()
    before = len(stage.requests(HeartbeatRequest))
    answer_heartbeats(stage, 12_000, polling=False)
    assert len(stage.requests(HeartbeatRequest)) == before + 4
    assert not stage.requests(LeaveGroupRequest), "nor does max.poll.interval.ms end it before"
    stage.finish()
    assert len(stage.requests(LeaveGroupRequest)) == 1
    stage.sleep(6_000)
    assert len(stage.requests(HeartbeatRequest)) == before + 4
