"""Static members that come back without their id."""

from kohort.groups.classic.transitions import Phase
from kohort.groups.replies import JoinReply, SyncReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation
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
