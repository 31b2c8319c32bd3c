"""JOIN_GROUP and SYNC_GROUP: every way an attempt can go."""

import pytest
from tests.unit.client.membership.stage import Stage

from kohort.assign.protocol import decode_subscription
from kohort.client.errors import BrokerError, FencedInstanceIdError, IllegalMemberStateError
from kohort.client.membership.commands import CallbackKind, EnforceRebalance
from kohort.client.membership.state import ClassicMemberState
from kohort.model.errors import ErrorCode, KohortError
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def test_who_is_given_a_member_id_joins_with_it_at_once() -> None:
    """T10 MEMBER_ID_REQUIRED: the second JoinGroup carries the id and generation -1; no second prepare."""
    stage = Stage().found()
    stage.answer_join(ErrorCode.MEMBER_ID_REQUIRED, member_id="given")
    stage.poll()
    second = stage.requests(JoinGroupRequest)[1]
    assert second.member_id == "given"
    assert "given" in (second.reason or "")
    assert decode_subscription(second.protocols[0].metadata).generation is None
    assert stage.now == 0
    assert stage.callbacks == []


def test_joining_may_take_as_long_as_a_rebalance() -> None:
    """T11 JoinGroup unanswered: longer than request.timeout.ms is fine, max.poll.interval.ms + 5 s is not."""
    stage = Stage(max_poll_interval_ms=60_000).found()
    stage.answer_join(ErrorCode.MEMBER_ID_REQUIRED, member_id="given")
    stage.poll()
    stage.sleep(64_900)
    assert stage.waiting(JoinGroupRequest)
    stage.sleep(100)
    assert stage.membership.coordinator is None
    stage.poll()
    stage.find()
    stage.sleep(100)
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == "given"


def test_the_longest_poll_interval_does_not_overflow() -> None:
    """T12 max.poll.interval.ms = 2147483647: the join timeout is the interval itself."""
    stage = Stage(max_poll_interval_ms=2_147_483_647).found()
    assert stage.waiting(JoinGroupRequest)[0].timeout_ms == 2_147_483_647


def test_an_unknown_eager_member_joins_anew_without_a_second_callback() -> None:
    """T13 (EAGER) UNKNOWN_MEMBER_ID on JoinGroup: rejoin with ""."""
    stage = Stage().stable()
    stage.told_to_rejoin()
    stage.poll()
    before = list(stage.callbacks)
    stage.answer_join(ErrorCode.UNKNOWN_MEMBER_ID)
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""
    assert stage.callbacks == before
    assert before[-1] == "revoked(t-0 t-1)"


def test_an_unknown_cooperative_member_loses_what_it_kept() -> None:
    """T13 (COOPERATIVE) UNKNOWN_MEMBER_ID on JoinGroup: lost(owned) before the next JoinGroup."""
    stage = Stage(assignors=["cooperative-sticky"]).stable()
    stage.told_to_rejoin()
    stage.poll()
    assert stage.callbacks == ["assigned(t-0 t-1)"]
    stage.answer_join(ErrorCode.UNKNOWN_MEMBER_ID)
    stage.poll()
    assert stage.callbacks[1:] == ["lost(t-0 t-1)"]
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""
    assert stage.owned == ""


def test_an_error_about_an_older_generation_is_ignored() -> None:
    """T14 UNKNOWN_MEMBER_ID answering a heartbeat of an older generation changes nothing."""
    stage = Stage().stable()
    stage.sleep(3_000)  # a heartbeat of generation 1 that is answered late
    stage.handle(EnforceRebalance())
    stage.poll()
    stage.answer_join(generation_id=2)
    stage.answer_sync("t-0")
    stage.poll()
    stage.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert stage.membership.state is ClassicMemberState.STABLE
    assert stage.membership.generation.generation_id == 2


def test_an_illegal_generation_keeps_the_member_id() -> None:
    """T15 ILLEGAL_GENERATION on SyncGroup: the next JoinGroup keeps the member id."""
    stage = Stage().found()
    stage.answer_join()
    stage.answer_sync(code=ErrorCode.ILLEGAL_GENERATION)
    assert stage.membership.generation.member_id == "m"
    assert stage.membership.generation.was_reset
    stage.poll()
    assert [each.member_id for each in stage.requests(JoinGroupRequest)] == ["", "m"]


def test_a_rebalance_that_overtakes_syncing_is_joined_at_once() -> None:
    """T16 REBALANCE_IN_PROGRESS on SyncGroup: immediate JoinGroup with the same id, no prepare."""
    stage = Stage().stable()
    stage.told_to_rejoin()
    stage.poll()
    stage.answer_join(generation_id=2)
    callbacks = list(stage.callbacks)
    stage.answer_sync(code=ErrorCode.REBALANCE_IN_PROGRESS)
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == "m"
    assert stage.callbacks == callbacks


def test_a_loading_coordinator_is_waited_for() -> None:
    """T17 COORDINATOR_LOAD_IN_PROGRESS on JoinGroup, then on SyncGroup: backoff each time, then joined."""
    stage = Stage().found()
    stage.answer_join(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    stage.poll()
    assert not stage.waiting(JoinGroupRequest)
    assert stage.membership.poll_again_at() == stage.now + 100
    stage.sleep(100)
    stage.poll()
    stage.answer_join()
    stage.answer_sync(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    stage.poll()
    assert not stage.waiting(JoinGroupRequest)
    stage.sleep(100)
    stage.poll()
    stage.stable("t-0", generation=2)
    assert stage.owned == "t-0"
    assert stage.requests(JoinGroupRequest)[-1].member_id == "m"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, "group.instance.id"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "group.max.size"),
        (ErrorCode.INVALID_SESSION_TIMEOUT, "session.timeout.ms"),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "partition.assignment.strategy"),
    ],
)
def test_what_cannot_be_helped_is_raised_and_names_the_setting(code: ErrorCode, names: str) -> None:
    """T18 Raised from poll; a later poll sends JoinGroup again."""
    stage = Stage().found()
    stage.answer_join(code)
    with pytest.raises(BrokerError, match=re_escape(names)):
        stage.poll()
    stage.poll()
    assert len(stage.waiting(JoinGroupRequest)) == 1


def re_escape(text: str) -> str:
    return text.replace(".", r"\.")


def test_a_group_of_another_kind_is_refused() -> None:
    """T19 Foreign protocol type in JoinGroup: INCONSISTENT_GROUP_PROTOCOL."""
    stage = Stage().found()
    stage.answer_join(protocol_type="connect")
    with pytest.raises(BrokerError, match="connect") as raised:
        stage.poll()
    assert raised.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not stage.requests(SyncGroupRequest)


@pytest.mark.parametrize(("field", "other"), [("protocol_name", "sticky"), ("protocol_type", "connect")])
def test_an_assignment_of_another_protocol_is_refused(field: str, other: str) -> None:
    """T19 Foreign protocol name or type in SyncGroup: INCONSISTENT_GROUP_PROTOCOL."""
    stage = Stage().found()
    stage.answer_join()
    stage.answer(SyncGroupRequest, SyncGroupResponse(**{field: other}))  # type: ignore[arg-type]  # by name
    with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
        stage.poll()


def test_a_poll_that_was_cut_short_does_not_join_twice() -> None:
    """T20 Wakeup after JoinGroup was sent: the next poll does not send a second one."""
    stage = Stage().found()
    stage.poll()  # the shell raised Wakeup after the last turn; the application polls again
    assert len(stage.requests(JoinGroupRequest)) == 1


def test_an_assignment_of_a_lost_generation_is_discarded() -> None:
    """T21 Heartbeat resets the generation while SyncGroup is in flight: its success is discarded, rejoin."""
    stage = Stage().found()
    stage.answer_join()
    stage.sleep(3_000)
    stage.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert stage.membership.state is ClassicMemberState.UNJOINED
    stage.answer_sync("t-0")
    stage.poll()
    assert stage.owned == ""
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""
    assert stage.callbacks == []


@pytest.mark.parametrize("blob", [b"", b"\x00"])
def test_an_assignment_without_a_version_is_refused(blob: bytes) -> None:
    """T22 Assignment of 0 or 1 byte: IllegalState."""
    stage = Stage().found()
    stage.answer_join()
    stage.answer_sync(blob=blob)
    with pytest.raises(IllegalMemberStateError, match="left it out"):
        stage.poll()


def test_an_assignor_nobody_configured_is_refused() -> None:
    """T22 An unconfigured assignor selected: IllegalState."""
    stage = Stage().found()
    stage.answer_join(protocol_name="mine")
    stage.answer_sync("t-0")
    with pytest.raises(IllegalMemberStateError, match=r"'mine'.*partition\.assignment\.strategy"):
        stage.poll()


def test_an_assignment_for_an_old_subscription_is_not_applied() -> None:
    """T23 A topic dropped from the subscription meanwhile: not applied, rejoin."""
    stage = Stage("t u").found()
    stage.answer_join()
    stage.subscribe("u")
    stage.answer_sync("t-0 u-0")
    assert not stage.poll()
    assert stage.owned == ""
    assert "assigned" not in " ".join(stage.callbacks)
    assert decode_subscription(stage.requests(JoinGroupRequest)[-1].protocols[0].metadata).topics == ("u",)


def test_a_long_reason_is_cut() -> None:
    """T24 Rejoin reason of 300 characters is cut to 255."""
    stage = Stage().stable()
    stage.handle(EnforceRebalance("x" * 300))
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].reason == "x" * 255


def test_nobody_leads_where_no_leader_is_named() -> None:
    """T25 Empty leader field in JoinGroup response: the member acts as follower."""
    stage = Stage().found()
    stage.answer_join(leader="")
    assert stage.requests(SyncGroupRequest)[0].assignments == []
    assert not stage.membership.is_leader


def test_heartbeats_begin_with_the_answer_to_joining() -> None:
    """T30 No heartbeat before JoinGroup success; heartbeats during a slow SyncGroup."""
    stage = Stage().found()
    stage.sleep(20_000)
    assert not stage.requests(HeartbeatRequest)
    stage.answer_join()
    stage.sleep(3_000)
    assert stage.membership.state is ClassicMemberState.COMPLETING_REBALANCE
    assert len(stage.requests(HeartbeatRequest)) == 1


def test_a_static_member_needs_a_broker_that_knows_such() -> None:
    stage = Stage(group_instance_id="i").found()
    send = stage.waiting(JoinGroupRequest)[0]
    assert send.lowest == 5
    assert stage.requests(JoinGroupRequest)[0].group_instance_id == "i"


def test_a_disconnect_while_syncing_keeps_the_member_id() -> None:
    stage = Stage().found()
    stage.answer_join()
    stage.disconnect(SyncGroupRequest)
    assert stage.membership.coordinator is None
    stage.poll()
    assert stage.waiting(FindCoordinatorRequest)
    stage.find()
    stage.sleep(100)
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == "m"
    assert stage.membership.rebalances_failed == 1


def test_an_answer_after_leaving_is_ignored() -> None:
    stage = Stage().found()
    stage.unsubscribe()
    stage.subscribe("u")
    stage.poll()
    assert len(stage.requests(JoinGroupRequest)) == 2, "the first one belongs to nobody"
    stage.answer_join(member_id="ghost")
    assert stage.membership.generation.member_id == ""
    stage.answer_join(ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    assert stage.membership.generation.member_id == "m"


def test_a_membership_lost_while_the_callback_runs_is_lost_before_joining() -> None:
    stage = Stage(assignors=["cooperative-sticky"]).stable("t-0 t-1")
    stage.subscribe("u")
    stage.sleep(3_000)
    stage.hooks[CallbackKind.REVOKED] = lambda _: stage.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    stage.poll()
    assert stage.callbacks[1:] == ["revoked(t-0 t-1)"]
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""


def test_a_generation_lost_before_the_assignment_is_taken_over_is_joined_anew() -> None:
    stage = Stage().found()
    stage.answer_join()
    stage.sleep(3_000)
    stage.answer_sync("t-0")
    stage.beat(ErrorCode.ILLEGAL_GENERATION)
    stage.poll()
    assert stage.callbacks == []
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""


def test_a_fenced_instance_is_told_who_it_is() -> None:
    stage = Stage(group_instance_id="me").found()
    stage.answer_join(ErrorCode.FENCED_INSTANCE_ID)
    with pytest.raises(FencedInstanceIdError, match="'me'") as raised:
        stage.poll()
    assert isinstance(raised.value, KohortError)
