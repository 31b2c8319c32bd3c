"""Scenarios read like stories."""

import pytest

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import FetchOffsets
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, MemberId
from kohort.sim.driver import Scenario


def test_a_silent_member_is_dropped_when_its_session_expires() -> None:
    scenario = Scenario.stable(a=10_000, b=30_000)
    again = scenario.join("b", changed=True)
    scenario.sleep(10_000)
    assert scenario.name_of(scenario.replies[again].leader) == "b"
    assert scenario.members == ["b"]
    assert scenario.leader == "b"


def test_joining_follows_the_two_steps_of_the_protocol() -> None:
    scenario = Scenario()
    request = scenario.join("a", reason="start")
    assert scenario.is_parked(request)
    assert [reply.body.error for reply in scenario.sent] == [ErrorCode.MEMBER_ID_REQUIRED]  # type: ignore[union-attr]  # of a join
    assert scenario.leader == "a"


def test_groups_are_told_apart_and_so_are_their_members() -> None:
    scenario = Scenario()
    scenario.join("a")
    scenario.join("a", group="other")
    scenario.sleep(3_000)
    scenario.sync_all("other")
    assert scenario.is_in(Phase.COMPLETING_REBALANCE)
    other = scenario.shard.group(GroupId("other"))
    assert other is not None
    assert other.phase is Phase.STABLE
    assert scenario.id_of("a") != scenario.member("a", "other").member_id


def test_a_group_that_does_not_exist_cannot_be_looked_at() -> None:
    scenario = Scenario()
    assert not scenario.exists
    with pytest.raises(AssertionError, match="there is no group 'g'"):
        _ = scenario.group


def test_an_empty_group_has_no_leader_and_unknown_ids_have_no_name() -> None:
    scenario = Scenario()
    scenario.join_once("a")
    assert scenario.leader is None
    assert scenario.name_of(MemberId("x")) == "x"


def test_only_a_group_in_the_making_can_settle() -> None:
    scenario = Scenario()
    scenario.join_once("a")
    with pytest.raises(AssertionError, match="no generation to sync in"):
        scenario.settle()


def test_a_settlement_does_not_wait_for_ever() -> None:
    scenario = Scenario.stable(a=1_000_000, b=1_000_000)
    scenario.join("b", changed=True, rebalance_timeout=1_000_000)
    with pytest.raises(AssertionError, match="no generation to sync in"):
        scenario.settle()


def test_any_request_can_be_made_by_hand() -> None:
    scenario = Scenario()
    fetch = FetchOffsets(reply_to=scenario.next_reply_to(), group_id=scenario.group_id)
    assert scenario.replies[scenario.send(fetch)].rows == ()


def test_the_causes_of_everything_can_be_read() -> None:
    scenario = Scenario.stable(a=10_000)
    assert len(scenario.why()) == len(scenario.events)
