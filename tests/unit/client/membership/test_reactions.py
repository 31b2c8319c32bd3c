"""The table of reactions: every row, played against the machine."""

import pytest
from tests.unit.client.membership.stage import Stage

from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    FencedInstanceIdError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TopicAuthorizationFailedError,
)
from kohort.client.membership.reactions import (
    ANY_OTHER,
    NO_ANSWER,
    REACTIONS,
    MembershipLoss,
    NextStep,
    Reaction,
    reaction_to,
    reaction_to_silence,
)
from kohort.client.membership.state import ClassicMemberState
from kohort.model.errors import ErrorCode, KohortError
from kohort.wire.apis import ApiKey
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kohort.wire.messages.sync_group import SyncGroupRequest

UNHEARD_OF = 32_000  # no broker of today sends it
KINDS = {
    ApiKey.FIND_COORDINATOR: FindCoordinatorRequest,
    ApiKey.JOIN_GROUP: JoinGroupRequest,
    ApiKey.SYNC_GROUP: SyncGroupRequest,
    ApiKey.HEARTBEAT: HeartbeatRequest,
    ApiKey.LEAVE_GROUP: LeaveGroupRequest,
    ApiKey.OFFSET_COMMIT: OffsetCommitRequest,
    ApiKey.OFFSET_FETCH: OffsetFetchRequest,
}


def rows(*asked: ApiKey) -> list[tuple[ApiKey, int | None, Reaction]]:
    """Every row of these requests; None for no answer."""
    return [(each, _number(code), reaction) for each in asked for code, reaction in REACTIONS[each].items()]


def _number(code: ErrorCode | str) -> int | None:
    if isinstance(code, str):
        return UNHEARD_OF if code == ANY_OTHER else None
    return int(code)


def name(value: object) -> str:
    return value.name if isinstance(value, ApiKey) else "" if isinstance(value, Reaction) else str(value)


def answer(stage: Stage, asked: ApiKey, code: int | None) -> None:
    """Answer the request that waits with a code, or not at all."""
    if code is None:
        stage.disconnect(KINDS[asked])
        return
    match asked:
        case ApiKey.FIND_COORDINATOR:
            stage.find(code)
        case ApiKey.JOIN_GROUP:
            stage.answer_join(code, member_id="given" if code == ErrorCode.MEMBER_ID_REQUIRED else "")
        case ApiKey.SYNC_GROUP:
            stage.answer_sync(code=code)
        case ApiKey.HEARTBEAT:
            stage.beat(code)
        case ApiKey.LEAVE_GROUP:
            left = MemberResponse(member_id="m", group_instance_id=None, error_code=code)
            stage.answer(LeaveGroupRequest, LeaveGroupResponse(members=[left]))
        case ApiKey.OFFSET_COMMIT:
            stage.answer_commit(code)
        case ApiKey.OFFSET_FETCH:
            group = OffsetFetchResponseGroup(group_id="g", error_code=code)
            stage.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))


def check_loss(stage: Stage, reaction: Reaction, before: str) -> None:
    generation = stage.membership.generation
    if reaction.loss is MembershipLoss.NOTHING:
        return
    assert generation.was_reset
    assert stage.membership.state is ClassicMemberState.UNJOINED
    assert generation.member_id == (before if reaction.loss is MembershipLoss.GENERATION else "")


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP), ids=name)
def test_joining_reacts_as_the_table_says(asked: ApiKey, code: int | None, reaction: Reaction) -> None:
    stage = Stage().stable("t-0")
    stage.told_to_rejoin()
    stage.poll()
    if asked is ApiKey.SYNC_GROUP:
        stage.answer_join(generation_id=2)
    joins = len(stage.requests(JoinGroupRequest))
    answer(stage, asked, code)
    assert (stage.membership.coordinator is None) == reaction.coordinator_unknown
    check_loss(stage, reaction, "m")
    if reaction.coordinator_unknown:
        stage.poll()
        stage.find()
    if reaction.then is NextStep.RAISE:
        with pytest.raises(BrokerError):
            stage.poll()
    stage.poll()
    at_once = len(stage.requests(JoinGroupRequest)) - joins
    assert at_once == (0 if reaction.then is NextStep.JOIN_LATER else 1)
    stage.sleep(100)
    stage.poll()
    again = stage.requests(JoinGroupRequest)[joins:]
    assert len(again) == 1
    kept = "" if reaction.loss is MembershipLoss.MEMBERSHIP else "given" if reaction.adopts_member_id else "m"
    assert again[0].member_id == kept


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.HEARTBEAT), ids=name)
def test_heartbeats_react_as_the_table_says(asked: ApiKey, code: int | None, reaction: Reaction) -> None:
    stage = Stage(session_timeout_ms=10_000).stable("t-0")
    stage.sleep(3_000)
    answer(stage, asked, code)
    assert (stage.membership.coordinator is None) == reaction.coordinator_unknown
    assert stage.membership.rejoin_needed == (reaction.rejoin or reaction.loss is not MembershipLoss.NOTHING)
    check_loss(stage, reaction, "m")
    if reaction.then is NextStep.RAISE:
        with pytest.raises(FencedInstanceIdError):
            stage.poll()
    elif reaction.then is NextStep.RECEIVED:
        stage.sleep(9_999)
        assert stage.membership.coordinator is not None, "the session began anew"
    elif reaction.loss is MembershipLoss.NOTHING and not reaction.coordinator_unknown:
        stage.sleep(100)
        assert len(stage.requests(HeartbeatRequest)) == 2


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.OFFSET_COMMIT), ids=name)
def test_commits_react_as_the_table_says(asked: ApiKey, code: int | None, reaction: Reaction) -> None:
    stage = Stage().stable("t-0")
    commit = stage.commit({"t-0": 1})
    answer(stage, asked, code)
    assert (stage.membership.coordinator is None) == reaction.coordinator_unknown
    assert stage.membership.rejoin_needed == (reaction.rejoin or reaction.loss is not MembershipLoss.NOTHING)
    check_loss(stage, reaction, "m")
    expected: dict[NextStep, type[KohortError]] = {
        NextStep.RETRY: RetriableCommitFailedError,
        NextStep.FAIL_STALE: RetriableCommitFailedError,
        NextStep.FAIL: type(BrokerError(code or 0, "commit")),
        NextStep.FAIL_TOPICS: TopicAuthorizationFailedError,
        NextStep.FAIL_EXPELLED: CommitFailedError,
        NextStep.FAIL_FENCED: FencedInstanceIdError,
        NextStep.FAIL_REBALANCING: RebalanceInProgressError,
    }
    assert type(stage.error_of(commit)) is expected[reaction.then]


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.FIND_COORDINATOR), ids=name)
def test_lookups_react_as_the_table_says(asked: ApiKey, code: int | None, reaction: Reaction) -> None:
    stage = Stage()
    stage.poll()
    answer(stage, asked, code)
    if reaction.then is NextStep.RAISE:
        with pytest.raises(BrokerError):
            stage.poll()
    stage.sleep(100)
    stage.poll()
    assert len(stage.requests(FindCoordinatorRequest)) == 2


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.OFFSET_FETCH), ids=name)
def test_offset_fetches_react_as_the_table_says(asked: ApiKey, code: int | None, reaction: Reaction) -> None:
    stage = Stage().stable("t-0")
    fetch = stage.fetch_committed("t-0")
    answer(stage, asked, code)
    assert (stage.membership.coordinator is None) == reaction.coordinator_unknown
    found = stage.fetched(fetch)
    if reaction.then is NextStep.RETRY:
        assert found is None
    else:
        assert found is not None
        assert found.error is not None


@pytest.mark.parametrize(("asked", "code", "reaction"), rows(ApiKey.LEAVE_GROUP), ids=name)
def test_what_becomes_of_leaving_is_only_noted(asked: ApiKey, code: int | None, reaction: Reaction) -> None:
    stage = Stage().stable("t-0")
    stage.unsubscribe()
    answer(stage, asked, code)
    assert "leaving was" in stage.notes()[-1]
    assert reaction.then is NextStep.NOTE


def test_codes_kafka_calls_retriable_are_retried_where_nothing_is_at_stake() -> None:
    assert reaction_to(ApiKey.FIND_COORDINATOR, ErrorCode.NETWORK_EXCEPTION).then is NextStep.RETRY
    assert reaction_to(ApiKey.OFFSET_FETCH, ErrorCode.REQUEST_TIMED_OUT).then is NextStep.RETRY
    assert reaction_to(ApiKey.JOIN_GROUP, ErrorCode.NETWORK_EXCEPTION).then is NextStep.RAISE


def test_every_request_has_a_row_for_the_unknown_and_for_silence() -> None:
    for asked in REACTIONS:
        assert reaction_to(asked, UNHEARD_OF) == REACTIONS[asked][ANY_OTHER]
        assert reaction_to_silence(asked) == REACTIONS[asked][NO_ANSWER]
