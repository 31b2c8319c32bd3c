"""Corners of the machine that no scenario of the specification names."""

from collections.abc import Collection
from typing import cast

import pytest
from tests.unit.client.membership.stage import Stage, tp

from kohort.assign.assignor import ClusterView, RebalanceProtocol, Subscriptions
from kohort.assign.protocol import Assignment
from kohort.client.errors import CallbackFailedError, IllegalMemberStateError
from kohort.client.membership.commands import CallbackKind, ConnectionLost, RequestFailed
from kohort.client.membership.context import ClassicContext
from kohort.client.membership.state import ClassicMemberState
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import Generation, MemberId, TopicName
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest


class Forgetful:
    """An assignor that fails when it is told what came out."""

    name = "forgetful"
    supported_protocols = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[TopicName]) -> None:
        return None

    def assign(self, cluster: ClusterView, subscriptions: Subscriptions) -> dict[MemberId, Assignment]:
        return {}

    def on_assignment(self, assignment: Assignment, generation: Generation) -> None:
        raise RuntimeError("what was it again?")


def refuse(stage: Stage, kind: type[Message]) -> None:
    """Report that the broker does not serve a request at all."""
    send = stage.waiting(kind)[0]
    stage.handle(RequestFailed(send.request_id, KohortError("too old")))


def test_an_assignor_that_fails_to_learn_is_like_a_callback_that_raises() -> None:
    stage = Stage(assignors=[Forgetful()]).found()
    stage.answer_join()
    stage.answer_sync("t-0")
    with pytest.raises(CallbackFailedError, match="what was it again"):
        stage.poll()
    assert stage.owned == "t-0"
    assert stage.callbacks == ["assigned(t-0)"], "the callback runs all the same"


@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest, FindCoordinatorRequest])
def test_a_request_no_broker_serves_is_raised(kind: type[Message]) -> None:
    stage = Stage()
    stage.poll()
    if kind is not FindCoordinatorRequest:
        stage.find()
        stage.poll()
    if kind is SyncGroupRequest:
        stage.answer_join()
    refuse(stage, kind)
    with pytest.raises(KohortError, match="too old"):
        stage.poll()


def test_offsets_no_broker_serves_are_an_error_at_once() -> None:
    stage = Stage().stable()
    fetch = stage.fetch_committed("t-0")
    refuse(stage, OffsetFetchRequest)
    found = stage.fetched(fetch)
    assert found is not None
    assert str(found.error) == "too old"


def test_offsets_of_an_older_broker_are_understood() -> None:
    stage = Stage().stable()
    fetch = stage.fetch_committed("t-0")
    row = OffsetFetchResponsePartition(partition_index=0, committed_offset=4, metadata=None)
    topic = OffsetFetchResponseTopic(name="t", partitions=[row])
    stage.answer(OffsetFetchRequest, OffsetFetchResponse(topics=[topic]))
    found = stage.fetched(fetch)
    assert found is not None
    assert found.offsets[tp("t-0")] == (4, -1, "")


def test_a_consumer_without_assignors_cannot_join() -> None:
    stage = Stage()
    cast(ClassicContext, stage.membership._context).assignors.clear()
    with pytest.raises(IllegalMemberStateError, match=r"partition\.assignment\.strategy"):
        stage.poll()


def test_a_member_that_was_reset_while_joining_starts_over() -> None:
    stage = Stage().stable("t-0")
    commit = stage.commit({"t-0": 1})
    stage.told_to_rejoin()
    stage.poll()
    stage.answer_commit(ErrorCode.UNKNOWN_MEMBER_ID)
    assert stage.error_of(commit) is not None
    assert stage.membership.state is ClassicMemberState.UNJOINED
    stage.answer_join(generation_id=2)
    assert not stage.requests(SyncGroupRequest)[1:], "an answer to somebody who is not there any more"
    stage.poll()
    stage.sleep(100)
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""


def test_a_given_id_comes_too_late_for_who_was_reset_meanwhile() -> None:
    stage = Stage().stable("t-0")
    stage.commit({"t-0": 1})
    stage.told_to_rejoin()
    stage.poll()
    stage.answer_commit(ErrorCode.UNKNOWN_MEMBER_ID)
    stage.answer_join(ErrorCode.MEMBER_ID_REQUIRED, member_id="late")
    stage.poll()
    assert stage.requests(JoinGroupRequest)[-1].member_id == ""


def test_leaving_that_succeeds_is_not_worth_a_line() -> None:
    stage = Stage().stable("t-0")
    stage.unsubscribe()
    stage.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert not any("leaving" in each for each in stage.notes())


def test_an_answer_to_syncing_after_leaving_is_ignored() -> None:
    stage = Stage().found()
    stage.answer_join()
    stage.unsubscribe()
    stage.answer_sync("t-0")
    assert stage.membership.state is ClassicMemberState.UNJOINED


def test_an_unsubscribed_member_needs_no_rejoin() -> None:
    stage = Stage().stable("t-0")
    stage.unsubscribe()
    assert stage.membership.poll_again_at() is None


def test_the_coordinator_may_vanish_while_a_callback_runs() -> None:
    stage = Stage().stable("t-0")
    stage.told_to_rejoin()
    stage.sleep(3_000)
    stage.hooks[CallbackKind.REVOKED] = lambda _: stage.beat(ErrorCode.NOT_COORDINATOR)
    assert not stage.poll()
    assert stage.waiting(FindCoordinatorRequest)
    assert stage.owned == ""


def test_a_poll_does_not_go_in_circles_while_a_commit_is_on_its_way() -> None:
    stage = Stage(enable_auto_commit=True, auto_commit_interval_ms=1_000).stable("t-0")
    stage.read_to(t0=1)
    stage.told_to_rejoin()
    assert not stage.poll()
    assert stage.waiting(OffsetCommitRequest)
    again = stage.membership.poll_again_at()
    assert again is not None
    assert again > stage.now


def test_a_member_tells_what_it_is() -> None:
    stage = Stage()
    assert (
        repr(stage.membership)
        == "<Membership of 'g': UNJOINED, generation -1 as 'no member', no coordinator>"
    )
    stage.stable("t-0")
    assert repr(stage.membership) == "<Membership of 'g': STABLE, generation 1 as 'm', coordinator 1>"
    assert repr(stage.membership._context.member) == "<ClassicProtocolMember STABLE, generation 1 as 'm'>"
    assert stage.membership.protocol is RebalanceProtocol.EAGER
    assert stage.membership.wanted_topics == frozenset({TopicName("t")})


def test_a_poll_does_not_go_in_circles_while_the_coordinator_is_looked_up() -> None:
    stage = Stage().stable("t-0")
    stage.handle(ConnectionLost())
    stage.sleep(3_000)
    assert stage.waiting(FindCoordinatorRequest)
    assert not stage.poll()
    assert stage.membership.poll_again_at() is None, "the answer wakes poll"
