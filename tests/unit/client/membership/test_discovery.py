"""FIND_COORDINATOR, and what poll does before there is one."""

import pytest
from tests.unit.client.membership.stage import Stage

from kohort.client.errors import BrokerError, CoordinatorNotFoundError, RetriableCommitFailedError
from kohort.client.membership.commands import (
    ConnectCoordinator,
    ConnectionLost,
    Destination,
    DisconnectCoordinator,
)
from kohort.client.membership.state import ClassicMemberState
from kohort.client.subscription import SubscriptionError
from kohort.model.errors import ErrorCode
from kohort.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest


def test_polling_without_a_subscription_is_refused() -> None:
    """T1 (the part of the machine) poll without subscription raises; nothing is sent."""
    stage = Stage("")
    with pytest.raises(SubscriptionError, match="nothing to poll"):
        stage.poll()
    assert not stage.sent


def test_a_lookup_is_repeated_with_backoff_and_fresh_metadata() -> None:
    """T2 Three times COORDINATOR_NOT_AVAILABLE: pauses in the ranges of backoff(0..2), then success."""
    stage = Stage(dice=0.999)
    pauses = []
    for _ in range(3):
        assert not stage.poll()
        stage.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        again = stage.membership.poll_again_at()
        assert again is not None
        pauses.append(again - stage.now)
        assert not stage.poll()
        assert not stage.waiting(FindCoordinatorRequest), "too early"
        stage.sleep(pauses[-1])
    assert pauses == [119, 239, 479]
    assert len(stage.refreshes()) == 3
    stage.poll()
    stage.find()
    assert stage.membership.coordinator is not None


def test_a_refused_lookup_is_raised_once_and_tried_again() -> None:
    """T3 GROUP_AUTHORIZATION_FAILED: poll raises; the next poll tries again."""
    stage = Stage()
    stage.poll()
    stage.find(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(CoordinatorNotFoundError) as raised:
        stage.poll()
    assert raised.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    stage.poll()
    assert len(stage.waiting(FindCoordinatorRequest)) == 1


def test_commits_wait_for_one_lookup_and_keep_their_order() -> None:
    """T4 Two async commits while the coordinator is unknown: one FindCoordinator, sent in call order."""
    stage = Stage("")
    stage.subscriptions.assign([])
    stage.commit({"t-0": 1})
    stage.commit({"t-0": 2})
    assert len(stage.requests(FindCoordinatorRequest)) == 1
    stage.find()
    sent = [each.topics[0].partitions[0].committed_offset for each in stage.requests(OffsetCommitRequest)]
    assert sent == [1, 2]


def test_a_commit_that_waits_hears_of_a_failed_lookup() -> None:
    stage = Stage("")
    commit = stage.commit({"t-0": 1})
    stage.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert isinstance(stage.error_of(commit), RetriableCommitFailedError)


def test_the_coordinator_has_a_connection_of_its_own() -> None:
    """T5 (the part of the machine) heartbeats do not queue behind fetches of the same broker."""
    stage = Stage().stable()
    assert [each.node.node_id for each in stage.effects if isinstance(each, ConnectCoordinator)] == [1]
    stage.sleep(3_000)
    assert stage.waiting(HeartbeatRequest)[0].destination is Destination.COORDINATOR


def test_a_broker_that_is_no_longer_the_coordinator_is_left_with_all_its_requests() -> None:
    """T6 NOT_COORDINATOR on heartbeat: in-flight requests are lost, rediscovery, generation unchanged."""
    stage = Stage().stable()
    generation = stage.membership.generation
    commit = stage.commit({"t-0": 1})
    stage.sleep(3_000)
    stage.beat(ErrorCode.NOT_COORDINATOR)
    assert isinstance(stage.error_of(commit), RetriableCommitFailedError)
    assert any(isinstance(each, DisconnectCoordinator) for each in stage.effects)
    assert not stage.waiting(OffsetCommitRequest)
    stage.sleep(0)
    stage.find(node=2)
    assert stage.membership.generation == generation
    assert stage.membership.state is ClassicMemberState.STABLE
    assert stage.poll()


def test_joining_takes_turns_of_poll_and_never_waits() -> None:
    """T7 poll(0) repeated completes a join without ever blocking."""
    stage = Stage()
    assert not stage.poll()
    stage.find()
    assert not stage.poll()
    assert not stage.poll()
    assert len(stage.requests(JoinGroupRequest)) == 1
    stage.answer_join()
    assert not stage.poll()
    stage.answer_sync("t-0")
    assert stage.poll()
    assert stage.owned == "t-0"
    assert stage.now == 0


def test_a_lost_connection_makes_the_coordinator_unknown_for_a_while() -> None:
    stage = Stage().stable()
    stage.handle(ConnectionLost())
    assert stage.membership.coordinator is None
    assert not any(isinstance(each, DisconnectCoordinator) for each in stage.effects)
    assert not stage.poll()
    assert len(stage.requests(FindCoordinatorRequest)) == 1, "the lookup waits for the backoff"
    stage.sleep(100)
    assert len(stage.requests(FindCoordinatorRequest)) == 2
    stage.handle(ConnectionLost())  # twice is once
    assert stage.membership.state is ClassicMemberState.STABLE


def test_lookups_without_an_answer_are_repeated() -> None:
    stage = Stage()
    stage.poll()
    stage.disconnect(FindCoordinatorRequest)
    stage.sleep(100)
    stage.poll()
    assert len(stage.waiting(FindCoordinatorRequest)) == 1


def test_a_long_search_is_worth_a_warning_about_max_poll_interval() -> None:
    stage = Stage(max_poll_interval_ms=10_000)
    for _ in range(4):
        stage.poll()
        stage.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        stage.sleep(5_000)
    warnings = [each for each in stage.notes() if "max.poll.interval.ms" in each]
    assert len(warnings) == 1


def test_a_reply_before_version_4_is_itself_the_coordinator() -> None:
    stage = Stage()
    stage.poll()
    stage.answer(FindCoordinatorRequest, FindCoordinatorResponse(node_id=7, host="old", port=1))
    assert stage.membership.coordinator is not None
    assert stage.membership.coordinator.node_id == 7


def test_two_coordinators_of_one_group_are_an_error() -> None:
    stage = Stage()
    stage.poll()
    stage.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[Coordinator(), Coordinator()]))
    with pytest.raises(BrokerError, match="more coordinators"):
        stage.poll()
