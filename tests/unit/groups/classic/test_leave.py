"""LeaveGroup."""

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Leaver
from kohort.groups.events import RebalanceStarted
from kohort.groups.replies import JoinReply, LeaveReply, LeftMember, SyncReply
from kohort.model.errors import ErrorCode
from kohort.model.ids import InstanceId, MemberId
from kohort.sim.driver import Scenario

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def stranger() -> Leaver:
    return Leaver(MemberId("x"))


def test_what_is_wrong_with_the_whole_comes_without_members() -> None:
    scenario = Scenario.stable(a=10_000)
    assert scenario.replies[scenario.leave_as(stranger(), group="")] == LeaveReply(
        error=ErrorCode.INVALID_GROUP_ID
    )
    scenario.unload()
    assert scenario.replies[scenario.leave("a")] == LeaveReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_from_a_group_that_does_not_exist_nobody_can_leave() -> None:
    scenario = Scenario()
    left = LeftMember(MemberId("x"), None, UNKNOWN)
    assert scenario.replies[scenario.leave_as(stranger(), stranger())] == LeaveReply(members=(left, left))
    assert scenario.replies[scenario.leave_as(stranger(), version=2)] == LeaveReply(error=UNKNOWN)
    assert scenario.replies[scenario.leave_as()] == LeaveReply()


def test_below_version_3_the_members_error_is_the_replys() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    assert scenario.replies[scenario.leave_as(stranger(), version=2)] == LeaveReply(error=UNKNOWN)
    assert scenario.replies[scenario.leave("a", version=2)] == LeaveReply()
    assert scenario.members == ["b"]


def test_an_administrator_names_the_instance_alone() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i")
    scenario.join("b")
    scenario.settle()
    reply = scenario.replies[scenario.leave_as(Leaver(MemberId(""), InstanceId("i"), "maintenance"))]
    assert reply.members == (LeftMember(MemberId(""), InstanceId("i"), ErrorCode.NONE),)
    assert scenario.members == ["b"]
    assert scenario.why(RebalanceStarted)[-1].endswith("(instance i) left; reason given: maintenance")


def test_an_administrator_that_names_nobody_removes_nobody() -> None:
    scenario = Scenario.stable(a=10_000)
    request = scenario.leave_as(Leaver(MemberId(""), InstanceId("i")), Leaver())
    assert [left.error for left in scenario.replies[request].members] == [UNKNOWN, UNKNOWN]
    assert scenario.is_in(Phase.STABLE)


def test_a_wrong_member_id_for_an_instance_is_fenced() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i")
    scenario.settle()
    request = scenario.leave_as(Leaver(MemberId("x"), InstanceId("i")))
    assert scenario.replies[request].members[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert scenario.members == ["a"]


def test_a_batch_has_one_result_each_and_one_rebalance() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000, c=10_000)
    scenario.join_once("p")
    pending = Leaver(scenario.id_of("p"))
    b = Leaver(scenario.id_of("b"))
    request = scenario.leave_as(stranger(), b, pending, b, Leaver(scenario.id_of("c")))
    errors = [left.error for left in scenario.replies[request].members]
    assert errors == [UNKNOWN, ErrorCode.NONE, ErrorCode.NONE, UNKNOWN, ErrorCode.NONE]
    assert len(scenario.why(RebalanceStarted)) == 2  # the first one formed the group
    assert scenario.members == ["a"]
    assert not scenario.group.pending


def test_giving_back_an_unused_id_disturbs_nobody() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.join_once("p")
    assert scenario.replies[scenario.leave("p")].members[0].error is ErrorCode.NONE
    assert scenario.is_in(Phase.STABLE)


def test_giving_back_the_id_all_waited_for_ends_the_wait() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.join_once("p")
    request = scenario.join("a", changed=True)
    scenario.leave("p")
    assert scenario.replies[request].generation == 2


def test_who_was_waited_for_leaves_and_the_others_go_on() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    request = scenario.join("b", changed=True)
    scenario.leave("a")
    assert scenario.replies[request].leader == scenario.id_of("b")


def test_in_the_initial_delay_leaving_ends_nothing() -> None:
    scenario = Scenario()
    request = scenario.join("a")
    scenario.join("b")
    scenario.leave("b")
    assert scenario.is_parked(request)


def test_what_a_leaver_had_parked_is_answered() -> None:
    scenario = Scenario()
    join = scenario.join("a")
    scenario.join("b")
    scenario.leave("a")
    assert scenario.replies[join] == JoinReply(error=UNKNOWN)
    scenario.join("c")
    scenario.sleep(10_000)
    sync = scenario.sync("c")
    scenario.leave("c")
    assert scenario.replies[sync] == SyncReply(error=UNKNOWN)


def test_the_answer_to_the_last_one_waits_for_the_empty_generation() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.hold_appends()
    request = scenario.leave("a")
    assert scenario.is_parked(request)
    assert scenario.is_in(Phase.EMPTY)
    scenario.release_appends()
    assert scenario.error(request) is ErrorCode.NONE


def test_if_the_empty_generation_cannot_be_stored_the_leaver_is_told() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert scenario.replies[scenario.leave("a")] == LeaveReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert scenario.is_in(Phase.STABLE)


def test_the_first_who_stays_leads_after_the_leader() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000, c=10_000)
    scenario.leave("a")
    assert scenario.leader == "b"
