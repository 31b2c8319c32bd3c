"""Static members that come back without their id."""

import pytest

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Leaver
from kohort.groups.replies import JoinReply, SyncReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, MemberId
from kohort.sim.driver import Scenario


def static_pair() -> Scenario:
    """A stable group of two static members; "a" leads."""
    scenario = Scenario()
    for name in ("a", "b"):
        scenario.join(name, instance=f"i-{name}")
    scenario.settle()
    return scenario


def test_a_new_static_member_needs_no_second_request() -> None:
    scenario = Scenario()
    request = scenario.join_once("a", instance="i", version=5)
    assert scenario.is_parked(request)
    assert list(scenario.group.members) == ["i-00000000-0000-4000-8000-000000000001"]


def test_a_follower_that_restarts_keeps_the_generation_and_its_assignment() -> None:
    scenario = static_pair()
    old = scenario.id_of("b")
    reply = scenario.replies[scenario.join("b", member_id="")]
    new = scenario.id_of("b")
    assert new != old
    assert reply == JoinReply(
        generation=Generation(1),
        protocol_type="consumer",
        protocol_name="range",
        leader=scenario.id_of("a"),
        member_id=new,
    )
    assert scenario.is_in(Phase.STABLE)
    assert scenario.replies[scenario.sync("b")].assignment == b"for-b"


def test_the_answer_waits_for_the_record() -> None:
    scenario = static_pair()
    scenario.hold_appends()
    request = scenario.join("b", member_id="")
    assert scenario.is_parked(request)
    scenario.release_appends()
    assert scenario.error(request) is ErrorCode.NONE


def test_a_leader_that_restarts_at_version_9_is_told_not_to_assign() -> None:
    scenario = static_pair()
    reply = scenario.replies[scenario.join("a", member_id="")]
    assert reply.skip_assignment
    assert reply.leader == reply.member_id == scenario.group.leader
    assert len(reply.members) == 2


def test_a_leader_that_restarts_at_version_8_is_told_that_its_old_id_leads() -> None:
    scenario = static_pair()
    old = scenario.id_of("a")
    reply = scenario.replies[scenario.join("a", member_id="", version=8)]
    assert reply.leader == old
    assert reply.members == ()
    assert not reply.skip_assignment
    assert scenario.group.leader == reply.member_id


def test_a_restart_that_changes_the_vote_rebalances() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i", protocols=["range", "roundrobin"])
    scenario.settle()
    request = scenario.join("a", member_id="", protocols=["roundrobin", "range"])
    assert scenario.replies[request].protocol_name == "roundrobin"
    assert scenario.replies[request].generation == 2


def test_a_restart_with_another_list_and_the_same_vote_keeps_the_list_and_the_peace() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i", protocols=["range"])
    scenario.settle()
    scenario.join("a", member_id="", protocols=["range", "roundrobin"])
    assert scenario.is_in(Phase.STABLE)
    assert scenario.group.offers == {"range": 1, "roundrobin": 1}


def test_a_refused_record_brings_the_old_id_back() -> None:
    scenario = static_pair()
    old = scenario.id_of("b")
    scenario.fail_next_append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    request = scenario.join(
        "b", member_id="", session_timeout=20_000, rebalance_timeout=1, protocols=["range", "x"]
    )
    assert scenario.replies[request] == JoinReply(
        error=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        generation=Generation(1),
        protocol_type="consumer",
        protocol_name="range",
        leader=scenario.id_of("a"),
    )
    member = scenario.group.members[old]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 30_000)
    assert [name for name, _ in member.protocols] == ["range"]
    assert scenario.heartbeat("b", member_id=old) is ErrorCode.NONE


def test_a_refused_record_of_the_leader_gives_the_lead_back() -> None:
    scenario = static_pair()
    old = scenario.id_of("a")
    scenario.fail_next_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    request = scenario.join("a", member_id="")
    assert scenario.replies[request].leader == old
    assert scenario.error(request) is ErrorCode.NOT_COORDINATOR
    assert scenario.group.leader == old


def test_a_refused_record_leaves_the_protocols_that_others_have_come_for() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i", protocols=["range"])
    scenario.settle()
    scenario.hold_appends()
    scenario.join("a", member_id="", protocols=["range", "sticky"])
    other = scenario.join("b", version=3, protocols=["sticky"])
    scenario.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    scenario.release_appends()
    scenario.sleep(30_000)
    assert scenario.replies[other].protocol_name == "sticky"


def test_a_refused_record_of_an_earlier_generation_leaves_the_protocols_of_this_one() -> None:
    scenario = static_pair()
    scenario.hold_appends()
    scenario.join("b", member_id="", protocols=["range", "sticky"])
    again = scenario.join("a", changed=True)
    while scenario.is_parked(again):
        scenario.sleep(1_000)
        scenario.heartbeat("a")
    scenario.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    scenario.release_appends(1)
    assert scenario.group.generation == 2
    assert scenario.group.offers == {"range": 2, "sticky": 1}


def test_while_its_new_id_is_being_stored_a_member_does_not_expire() -> None:
    scenario = static_pair()
    scenario.hold_appends()
    request = scenario.join("b", member_id="")
    for _ in range(2):
        scenario.sleep(9_000)
        scenario.heartbeat("a")
    scenario.release_appends()
    assert scenario.error(request) is ErrorCode.NONE
    scenario.heartbeat("a")
    scenario.sleep(9_999)
    assert scenario.members == ["a", "b"]
    scenario.heartbeat("a")
    scenario.sleep(1)
    assert scenario.members == ["a"]


def test_what_the_old_id_had_parked_is_fenced() -> None:
    scenario = static_pair()
    old = scenario.id_of("b")
    parked_join = scenario.join("b", changed=True)
    again = scenario.join("b", member_id="")
    assert scenario.replies[parked_join] == JoinReply(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old)
    assert scenario.is_parked(again)
    scenario.join("a")
    parked_sync = scenario.sync("b")
    assert scenario.is_in(Phase.COMPLETING_REBALANCE)
    scenario.join("b", member_id="")
    assert scenario.replies[parked_sync] == SyncReply(error=ErrorCode.FENCED_INSTANCE_ID)
    assert scenario.is_in(Phase.PREPARING_REBALANCE)


def test_the_old_id_is_fenced_everywhere() -> None:
    scenario = static_pair()
    old = scenario.id_of("b")
    scenario.join("b", member_id="")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert scenario.heartbeat("b", member_id=old) is fenced
    assert scenario.error(scenario.sync("b", member_id=old)) is fenced
    assert scenario.replies[scenario.commit("b", {("t", 0): 1}, member_id=old)].rows[0].error is fenced
    assert scenario.heartbeat("b", member_id=old, instance=None) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_second_restart_while_the_first_is_being_stored_fences_it() -> None:
    scenario = static_pair()
    scenario.hold_appends()
    first = scenario.join("b", member_id="")
    second = scenario.join("b", member_id="")
    scenario.release_appends()
    assert scenario.error(first) is ErrorCode.FENCED_INSTANCE_ID
    assert scenario.error(second) is ErrorCode.NONE


@pytest.mark.parametrize("stored", [True, False])
def test_an_instance_that_was_sent_away_while_its_return_is_being_stored_is_unknown(stored: bool) -> None:
    scenario = static_pair()
    scenario.hold_appends()
    request = scenario.join("b", member_id="")
    scenario.leave_as(Leaver(MemberId(""), scenario.member("b").instance_id))
    if not stored:
        scenario.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    scenario.release_appends()
    expected = ErrorCode.UNKNOWN_MEMBER_ID if stored else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scenario.error(request) is expected
    assert scenario.members == ["a"]


@pytest.mark.parametrize("stored", [True, False])
def test_a_return_that_is_stored_when_the_group_is_gone_is_unknown(stored: bool) -> None:
    scenario = Scenario()
    scenario.join("b", instance="i")
    scenario.settle()
    scenario.hold_appends()
    request = scenario.join("b", member_id="")
    scenario.leave_as(Leaver(MemberId(""), scenario.member("b").instance_id))
    scenario.admin.delete_groups("g")
    if not stored:
        scenario.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    scenario.release_appends()
    expected = ErrorCode.UNKNOWN_MEMBER_ID if stored else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scenario.error(request) is expected
    assert not scenario.exists
