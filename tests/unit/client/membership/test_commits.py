"""Commits: of the application, on the interval, at the end; and what became of them."""

import pytest
from tests.unit.client.membership.stage import Stage, tp, tps

from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    CommitTimeoutError,
    FencedInstanceIdError,
    OffsetFetchTimeoutError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationFailedError,
)
from kohort.client.membership.commands import AutoCommitIfDue, CommitDone, EnforceRebalance
from kohort.client.membership.state import ClassicMemberState
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.errors import ErrorCode, KohortError
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


def auto(interval: int = 5_000) -> Stage:
    return Stage(enable_auto_commit=True, auto_commit_interval_ms=interval).stable("t-0")


def committed(stage: Stage) -> list[int]:
    return [each.topics[0].partitions[0].committed_offset for each in stage.requests(OffsetCommitRequest)]


def test_what_the_last_poll_returned_waits_for_the_next_one() -> None:
    """T56 Records of the last poll are not auto-committed before the next poll or close."""
    stage = auto()
    stage.read_to(t0=5)
    stage.sleep(6_000)
    assert committed(stage) == [], "time alone commits nothing"
    stage.poll()
    assert committed(stage) == [5]
    stage.answer_commit()
    stage.read_to(t0=9)
    stage.close()
    assert committed(stage) == [5, 9]


def test_an_auto_commit_that_failed_is_soon_repeated() -> None:
    """T57 Retriable auto-commit failure: next attempt after retry.backoff.ms, not after the interval."""
    stage = auto()
    stage.read_to(t0=5)
    stage.sleep(5_000)
    stage.poll()
    stage.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert stage.membership.poll_again_at() == stage.now + 100
    stage.sleep(100)
    stage.poll()
    assert committed(stage) == [5, 5]
    stage.answer_commit()
    stage.sleep(200)
    stage.poll()
    assert len(committed(stage)) == 2


def test_an_auto_commit_that_cannot_be_helped_is_noted() -> None:
    stage = auto()
    stage.read_to(t0=5)
    stage.sleep(5_000)
    stage.poll()
    stage.answer_commit(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert "auto-commit failed" in stage.notes()[-1]


def test_callbacks_come_in_the_order_of_completion() -> None:
    """T58 commit_async A, then commit_sync B: A is done before B; commit_sync({}) waits for A as well."""
    stage = Stage().stable("t-0")
    first = stage.commit({"t-0": 1})
    second = stage.commit({"t-0": 2}, timeout=1_000)
    nothing = stage.commit({}, timeout=1_000)
    assert stage.done(nothing) is None
    stage.answer_commit()
    stage.answer_commit()
    done = [each.commit_id for each in stage.effects if isinstance(each, CommitDone)]
    assert done == [first, nothing, second]
    assert stage.error_of(nothing) is None


def test_nothing_to_commit_is_done_at_once() -> None:
    stage = Stage().stable("t-0")
    assert stage.error_of(stage.commit({})) is None
    assert stage.error_of(stage.commit({}, timeout=1_000)) is None
    assert stage.error_of(stage.commit(None, timeout=1_000)) is None, "no partition has a position"
    assert not stage.requests(OffsetCommitRequest)


def test_waiting_for_earlier_commits_ends_with_the_deadline() -> None:
    stage = Stage().stable("t-0")
    stage.commit({"t-0": 1})
    nothing = stage.commit({}, timeout=1_000)
    stage.sleep(1_000)
    assert isinstance(stage.error_of(nothing), CommitTimeoutError)
    stage.answer_commit()


def test_committing_in_the_middle_of_a_rebalance_is_refused() -> None:
    """T59 Commit during a rebalance: RebalanceInProgress; after expulsion: CommitFailed."""
    stage = Stage().stable("t-0")
    stage.told_to_rejoin()
    commit = stage.commit({"t-0": 1}, timeout=1_000)
    assert stage.waiting(OffsetCommitRequest), "STABLE until JoinGroup is sent"
    stage.answer_commit()
    assert stage.error_of(commit) is None
    stage.poll()
    assert isinstance(stage.error_of(stage.commit({"t-0": 1}, timeout=1_000)), RebalanceInProgressError)
    stage.answer_join(generation_id=2)
    assert isinstance(stage.error_of(stage.commit({"t-0": 1})), RebalanceInProgressError)
    stage.sleep(3_000)
    stage.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert isinstance(stage.error_of(stage.commit({"t-0": 1})), CommitFailedError)


def test_an_old_commit_during_a_new_rebalance_resets_nothing() -> None:
    """T60 ILLEGAL_GENERATION answer to a commit of an older generation, PREPARING: RebalanceInProgress."""
    stage = Stage().stable("t-0")
    stage.rejoined("t-0", generation=2)
    commit = stage.commit({"t-0": 1})
    stage.handle(EnforceRebalance())
    stage.poll()
    stage.answer_join(generation_id=3)
    stage.answer_sync("t-0")
    stage.poll()
    stage.handle(EnforceRebalance())
    stage.poll()
    assert stage.membership.state is ClassicMemberState.PREPARING_REBALANCE
    stage.answer_commit(ErrorCode.ILLEGAL_GENERATION)
    assert isinstance(stage.error_of(commit), RebalanceInProgressError)
    assert stage.membership.generation.generation_id == 3


def test_an_old_commit_in_a_new_generation_resets_nothing() -> None:
    """T60 else CommitFailed; no reset."""
    stage = Stage().stable("t-0")
    commit = stage.commit({"t-0": 1})
    stage.handle(EnforceRebalance())
    stage.poll()
    stage.answer_join(generation_id=2)
    stage.answer_sync("t-0")
    stage.poll()
    stage.answer_commit(ErrorCode.ILLEGAL_GENERATION)
    assert isinstance(stage.error_of(commit), CommitFailedError)
    assert stage.membership.generation.generation_id == 2
    assert stage.membership.state is ClassicMemberState.STABLE


def test_a_fenced_commit_ends_everything() -> None:
    """T61 Fenced async commit: every later poll and commit raises FencedInstanceId."""
    stage = Stage(group_instance_id="i").stable("t-0")
    commit = stage.commit({"t-0": 1})
    stage.answer_commit(ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(stage.error_of(commit), FencedInstanceIdError)
    for _ in range(2):
        with pytest.raises(FencedInstanceIdError):
            stage.poll()
    assert isinstance(stage.error_of(stage.commit({"t-0": 1}, timeout=1_000)), FencedInstanceIdError)


def test_a_sync_commit_is_repeated_until_it_succeeds() -> None:
    stage = Stage().stable("t-0")
    commit = stage.commit({"t-0": 1}, timeout=10_000)
    stage.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    stage.sleep(99)
    assert not stage.waiting(OffsetCommitRequest)
    stage.sleep(1)
    stage.answer_commit(ErrorCode.NOT_COORDINATOR)
    assert stage.membership.coordinator is None
    stage.sleep(200)
    stage.find(node=2)
    stage.answer_commit()
    assert stage.error_of(commit) is None


def test_a_sync_commit_that_does_not_succeed_in_time_says_why() -> None:
    stage = Stage().stable("t-0")
    commit = stage.commit({"t-0": 1}, timeout=150)
    stage.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    stage.sleep(150)
    error = stage.error_of(commit)
    assert isinstance(error, CommitTimeoutError)
    assert "in time: cannot commit offsets of group 'g': COORDINATOR_LOAD_IN_PROGRESS" in str(error)
    assert isinstance(error.__cause__, BrokerError)
    stage.answer_commit()  # too late: nobody is told twice


def test_a_sync_commit_without_a_coordinator_hears_when_the_lookup_is_refused() -> None:
    stage = Stage("")
    commit = stage.commit({"t-0": 1}, timeout=10_000)
    stage.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert stage.done(commit) is None
    stage.sleep(100)
    stage.find(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert stage.error_of(commit) is not None


def test_topics_one_may_not_use_are_all_named() -> None:
    stage = Stage("t u").stable("t-0 u-0")
    commit = stage.commit({"t-0": 1, "u-0": 1, "u-1": 1}, timeout=1_000)
    stage.answer_commit(29, 29, 0)
    error = stage.error_of(commit)
    assert isinstance(error, TopicAuthorizationFailedError)
    assert error.topics == {"t", "u"}


def test_the_first_other_error_decides() -> None:
    stage = Stage("t u").stable("t-0 u-0")
    commit = stage.commit({"t-0": 1, "u-0": 1}, timeout=1_000)
    stage.answer_commit(29, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    error = stage.error_of(commit)
    assert isinstance(error, BrokerError)
    assert "offset.metadata.max.bytes" in error.hint


def test_negative_offsets_are_not_sent() -> None:
    stage = Stage().stable("t-0")
    error = stage.error_of(stage.commit({"t-0": -1}))
    assert error is not None
    assert "negative" in str(error)


def test_a_commit_says_who_commits() -> None:
    stage = Stage(group_instance_id="i").stable("t-0", generation=7)
    stage.read_to(t0=3)
    stage.commit()
    request = stage.requests(OffsetCommitRequest)[0]
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (
        7,
        "m",
        "i",
    )
    assert stage.waiting(OffsetCommitRequest)[0].highest == 9


def test_with_manual_assignment_nobody_commits() -> None:
    stage = Stage("", enable_auto_commit=True, group_instance_id="i")
    stage.subscriptions.assign(tps("t-0"))
    stage.read_to(t0=3)
    assert stage.poll(), "no coordinator is needed"
    assert not stage.sent
    stage.sleep(5_000)
    stage.handle(AutoCommitIfDue())
    stage.find()
    request = stage.requests(OffsetCommitRequest)[0]
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (
        -1,
        "",
        None,
    )
    stage.answer_commit(ErrorCode.UNKNOWN_MEMBER_ID)
    assert stage.poll(), "not a member: nothing is lost"


def test_a_commit_that_finds_a_rebalance_asks_for_a_rejoin() -> None:
    stage = Stage().stable("t-0")
    commit = stage.commit({"t-0": 1}, timeout=1_000)
    stage.answer_commit(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(stage.error_of(commit), RebalanceInProgressError)
    assert stage.membership.rejoin_needed
    assert stage.membership.state is ClassicMemberState.STABLE


def test_closing_commits_gives_back_and_leaves() -> None:
    stage = auto()
    stage.read_to(t0=5)
    stage.close()
    assert stage.closed() is None
    assert stage.callbacks == ["assigned(t-0)"]
    stage.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    stage.sleep(100)
    stage.answer_commit()
    closed = stage.closed()
    assert closed is not None
    assert closed.error is None
    assert stage.callbacks[-1] == "revoked(t-0)"
    assert len(stage.requests(LeaveGroupRequest)) == 1
    assert stage.membership.next_deadline() is None
    assert stage.membership.poll_again_at() is None


def test_closing_does_not_wait_longer_than_it_may() -> None:
    stage = auto()
    stage.read_to(t0=5)
    stage.close(timeout=2_000)
    stage.sleep(2_000)
    assert stage.closed() is not None
    assert "auto-commit failed" in " ".join(stage.notes())


def test_closing_waits_for_asynchronous_commits() -> None:
    stage = Stage().stable("t-0")
    commit = stage.commit({"t-0": 1})
    stage.close()
    assert stage.closed() is None
    stage.answer_commit()
    assert stage.error_of(commit) is None
    assert stage.closed() is not None


def test_a_member_may_stay_when_it_closes() -> None:
    stage = Stage(internal_leave_group_on_close=False).stable("t-0")
    stage.close()
    assert stage.closed() is not None
    assert not stage.requests(LeaveGroupRequest)


def offsets(stage: Stage, offset: int = 5, code: int = 0, group_code: int = 0) -> None:
    """Answer OffsetFetch for t-0."""
    row = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=offset, error_code=code, metadata="x"
    )
    topic = OffsetFetchResponseTopics(name="t", partitions=[row])
    group = OffsetFetchResponseGroup(group_id="g", error_code=group_code, topics=[topic])
    stage.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))


def test_what_the_group_committed_can_be_asked() -> None:
    stage = Stage("")
    fetch = stage.fetch_committed("t-0 t-1")
    stage.find()
    assert stage.requests(OffsetFetchRequest)[0].require_stable
    offsets(stage)
    found = stage.fetched(fetch)
    assert found is not None
    assert found.offsets == {tp("t-0"): OffsetAndMetadata(5, -1, "x"), tp("t-1"): None}


def test_offsets_of_an_open_transaction_are_waited_for() -> None:
    """T63 UNSTABLE_OFFSET_COMMIT: committed-offset fetch retried until stable."""
    stage = Stage().stable("t-0")
    fetch = stage.fetch_committed("t-0")
    offsets(stage, code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    stage.sleep(100)
    offsets(stage, group_code=ErrorCode.NOT_COORDINATOR)
    stage.sleep(200)
    stage.find()
    offsets(stage, offset=-1)
    found = stage.fetched(fetch)
    assert found is not None
    assert found.offsets == {tp("t-0"): None}


@pytest.mark.parametrize(
    ("code", "error"), [(29, TopicAuthorizationFailedError), (3, BrokerError), (30, BrokerError)]
)
def test_offsets_one_may_not_see_are_an_error(code: int, error: type[KohortError]) -> None:
    stage = Stage().stable("t-0")
    fetch = stage.fetch_committed("t-0")
    offsets(stage, code=code)
    found = stage.fetched(fetch)
    assert found is not None
    assert isinstance(found.error, error)
    assert not found.error.retriable


def test_asking_for_offsets_ends_with_its_deadline() -> None:
    stage = Stage("")
    fetch = stage.fetch_committed("t-0", timeout=1_000)
    stage.disconnect(FindCoordinatorRequest)
    stage.sleep(1_000)
    found = stage.fetched(fetch)
    assert found is not None
    assert isinstance(found.error, OffsetFetchTimeoutError)


def test_asking_for_offsets_hears_of_a_refused_lookup_and_of_lost_connections() -> None:
    stage = Stage("")
    fetch = stage.fetch_committed("t-0")
    stage.find()
    stage.disconnect(OffsetFetchRequest)
    stage.sleep(100)
    stage.find(ErrorCode.INVALID_GROUP_ID)
    found = stage.fetched(fetch)
    assert found is not None
    assert found.error is not None


def test_a_retriable_failure_of_an_async_commit_is_wrapped() -> None:
    stage = Stage().stable("t-0")
    commit = stage.commit({"t-0": 1})
    stage.disconnect(OffsetCommitRequest)
    error = stage.error_of(commit)
    assert isinstance(error, RetriableCommitFailedError)
    assert error.__cause__ is not None
    assert stage.membership.coordinator is None
