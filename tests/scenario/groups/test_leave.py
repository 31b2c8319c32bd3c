"""LeaveGroup: members go, or are sent away (classic-groups 5.3, 12)."""

import pytest
from tests.scenario.groups.story import (
    SESSION,
    completing,
    emptied,
    group_records,
    joined,
    keep_alive,
    last_group_record,
    names_listed,
    phase_of,
    refused_join,
    refused_sync,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Leaver
from kohort.groups.events import RebalanceStarted
from kohort.groups.replies import LeaveReply, LeftMember
from kohort.model.errors import ErrorCode
from kohort.model.ids import InstanceId, MemberId
from kohort.sim.driver import Scenario

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
NOBODY = Leaver(MemberId("nobody"))
I1 = InstanceId("i1")


def with_a_static_member() -> Scenario:
    """Stable: "a", "b" are dynamic, "s" is static (instance i1)."""
    scenario = Scenario()
    scenario.join("a")
    scenario.join("b")
    scenario.join("s", instance=I1)
    scenario.settle()
    return scenario


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_older_leave_has_one_error(version: int) -> None:
    """Scenario 101. Given v2 and an unknown member, then top-level 25."""
    scenario = stable("a", "b")
    request = scenario.leave_as(NOBODY, version=version)
    assert scenario.error(request) is UNKNOWN
    assert phase_of(scenario) is Phase.STABLE
    request = scenario.leave("b", version=version)
    assert scenario.error(request) is NONE
    assert scenario.members == ["a"]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_newer_leave_has_an_error_for_each_member(version: int) -> None:
    """Scenario 101. Given v3, then top-level NONE and member error UNKNOWN_MEMBER_ID."""
    scenario = stable("a", "b")
    request = scenario.leave_as(NOBODY, version=version)
    assert scenario.replies[request] == LeaveReply(
        error=NONE, members=(LeftMember(MemberId("nobody"), None, UNKNOWN),)
    )
    assert phase_of(scenario) is Phase.STABLE


def test_nobody_can_leave_a_group_that_is_not_there() -> None:
    """Scenario 102. Given unknown group at v3, then top-level 0, every member 25."""
    scenario = Scenario()
    request = scenario.leave_as(Leaver(MemberId("x")), Leaver(MemberId(""), I1), version=3)
    assert scenario.replies[request] == LeaveReply(
        error=NONE, members=(LeftMember(MemberId("x"), None, UNKNOWN), LeftMember(MemberId(""), I1, UNKNOWN))
    )
    assert scenario.error(scenario.leave_as(NOBODY, version=2)) is UNKNOWN
    assert not scenario.exists


def test_an_administrator_removes_an_instance_without_its_id() -> None:
    """Scenario 103. Given id ``""`` and a known instance id, then that member is removed and the answer
    echoes id ``""``."""
    scenario = with_a_static_member()
    request = scenario.leave_as(Leaver(MemberId(""), I1, "consumer was removed by admin"))
    assert scenario.replies[request] == LeaveReply(error=NONE, members=(LeftMember(MemberId(""), I1, NONE),))
    assert scenario.members == ["a", "b"]
    assert scenario.group.instances == {}
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


@pytest.mark.parametrize("instance", [None, "other"])
def test_no_id_and_no_known_instance_is_nobody(instance: str | None) -> None:
    """Scenario 103. id ``""`` with instance id null or unknown: 25 (classic-groups 5.3)."""
    scenario = with_a_static_member()
    named = None if instance is None else InstanceId(instance)
    request = scenario.leave_as(Leaver(MemberId(""), named))
    assert scenario.replies[request].members == (LeftMember(MemberId(""), named, UNKNOWN),)
    assert phase_of(scenario) is Phase.STABLE


@pytest.mark.parametrize("claimed", ["a", "nobody"])
def test_an_instance_cannot_be_removed_under_another_id(claimed: str) -> None:
    """Scenario 104. Given a wrong member id for a known instance id, then 82 and nobody is removed."""
    scenario = with_a_static_member()
    wrong = scenario.id_of("a") if claimed == "a" else MemberId("nobody")
    request = scenario.leave_as(Leaver(wrong, I1))
    assert scenario.replies[request].members == (LeftMember(wrong, I1, ErrorCode.FENCED_INSTANCE_ID),)
    assert scenario.members == ["a", "b", "s"]
    assert phase_of(scenario) is Phase.STABLE


def test_a_member_with_an_unknown_instance_cannot_leave() -> None:
    """Scenario 104. Known member id, unknown instance id: 25 (classic-groups 4.1 #10)."""
    scenario = with_a_static_member()
    request = scenario.leave_as(Leaver(scenario.id_of("a"), InstanceId("other")))
    assert scenario.replies[request].members[0].error is UNKNOWN
    assert scenario.members == ["a", "b", "s"]


def test_a_batch_of_leavers_makes_one_rebalance() -> None:
    """Scenario 105. Given a batch of one valid, one unknown and one pending id, then 0, 25, 0 and a single
    rebalance."""
    scenario = stable("a", "b", "c")
    scenario.join_once("d")
    handed_out, valid = scenario.id_of("d"), scenario.id_of("b")
    rebalances = len(scenario.why(RebalanceStarted))
    request = scenario.leave_as(Leaver(valid), NOBODY, Leaver(handed_out))
    assert scenario.replies[request] == LeaveReply(
        error=NONE,
        members=(
            LeftMember(valid, None, NONE),
            LeftMember(MemberId("nobody"), None, UNKNOWN),
            LeftMember(handed_out, None, NONE),
        ),
    )
    assert scenario.members == ["a", "c"]
    assert not scenario.group.pending
    assert len(scenario.why(RebalanceStarted)) == rebalances + 1
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_two_members_that_leave_together_make_one_rebalance() -> None:
    """Scenario 105. The rebalance comes once after the batch (classic-groups 10 #16)."""
    scenario = stable("a", "b", "c")
    rebalances = len(scenario.why(RebalanceStarted))
    scenario.leave("a", "b")
    assert len(scenario.why(RebalanceStarted)) == rebalances + 1
    assert scenario.group.generation == 1
    of_c = scenario.join("c")
    assert scenario.replies[of_c] == joined(scenario, "c", leader="c", generation=2, listed="c")


def test_whoever_is_named_twice_leaves_once() -> None:
    """Scenario 105. A duplicate entry later in the same batch gets 25 (classic-groups 5.3)."""
    scenario = stable("a", "b")
    request = scenario.leave("b", "b")
    assert [each.error for each in scenario.replies[request].members] == [NONE, UNKNOWN]


@pytest.mark.parametrize("group", ["stable", "completing"])
def test_an_id_that_is_given_back_disturbs_nobody(group: str) -> None:
    """Scenario 105. LeaveGroup of a pending id alone in C or S starts no rebalance (classic-groups 10
    #15)."""
    scenario = stable("a", "b") if group == "stable" else completing("a", "b")
    before = phase_of(scenario)
    scenario.join_once("c")
    request = scenario.leave("c")
    assert scenario.replies[request].members[0].error is NONE
    assert not scenario.group.pending
    assert phase_of(scenario) is before
    again = scenario.join_once("c")
    assert scenario.replies[again] == refused_join(UNKNOWN, scenario.id_of("c"))


def test_a_member_that_leaves_while_it_waits_for_a_join_is_told() -> None:
    """Scenario 106. Given a member with a parked join leaves, then that join gets 25."""
    scenario = stable("a", "b", "c")
    waiting = scenario.join("a")
    scenario.leave("a")
    assert scenario.replies[waiting] == refused_join(UNKNOWN, "")
    assert scenario.members == ["b", "c"]
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.leader == "b"


def test_a_member_that_leaves_while_it_waits_for_its_assignment_is_told() -> None:
    """Scenario 106. Kohort answers 25 to a parked sync of a leaver; the others get 27
    (classic-groups 4.4)."""
    scenario = completing("a", "b", "c")
    of_b, of_c = scenario.sync("b"), scenario.sync("c")
    scenario.leave("b")
    assert scenario.replies[of_b] == refused_sync(UNKNOWN)
    assert scenario.replies[of_c] == refused_sync(ErrorCode.REBALANCE_IN_PROGRESS)


def test_the_last_missing_member_need_not_join_if_it_leaves() -> None:
    """Scenario 107. Given PreparingRebalance (non-initial) where the leaver was the last missing member, then
    the join completes."""
    scenario = stable("a", "b", "c")
    of_a, of_b = scenario.join("a"), scenario.join("b")
    assert scenario.is_parked(of_a)
    scenario.leave("c")
    assert scenario.replies[of_a] == joined(scenario, "a", leader="a", generation=2, listed="a b")
    assert scenario.replies[of_b] == joined(scenario, "b", leader="a", generation=2)


def test_the_last_missing_leader_need_not_join_if_it_leaves() -> None:
    """Scenario 107. The same when the leader goes: a joined member leads."""
    scenario = stable("a", "b", "c")
    of_c, of_b = scenario.join("c", changed=True), scenario.join("b")
    scenario.leave("a")
    assert scenario.leader in ("b", "c")
    leading = of_b if scenario.leader == "b" else of_c
    assert names_listed(scenario, leading) == {"b", "c"}
    assert scenario.replies[leading].generation == 2


def test_the_last_member_leaves_when_the_log_knows() -> None:
    """Scenario 108. Given the only member leaves Stable, then the group is Empty and the answer follows the
    stored record."""
    scenario = stable("a")
    scenario.hold_appends()
    request = scenario.leave("a")
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
    assert scenario.is_parked(request)
    assert len(group_records(scenario)) == 1
    scenario.release_appends()
    assert scenario.replies[request] == LeaveReply(
        error=NONE, members=(LeftMember(scenario.id_of("a"), None, NONE),)
    )
    record = last_group_record(scenario)
    assert (record.protocol_type, record.generation, record.protocol) == ("consumer", 2, None)
    assert (record.leader, list(record.members)) == (None, [])


@pytest.mark.parametrize("version", [2, 5])
def test_a_leave_that_cannot_be_stored_fails_as_a_whole(version: int) -> None:
    """Scenario 108. An append failure turns into the top-level error; the members array is empty
    (classic-groups 5.3)."""
    scenario = stable("a")
    scenario.fail_next_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    request = scenario.leave("a", version=version)
    assert scenario.replies[request] == LeaveReply(error=ErrorCode.NOT_COORDINATOR, members=())


def test_a_leave_that_stores_nothing_waits_for_nothing() -> None:
    """Scenario 108. Only a leave that empties the group waits for a record."""
    scenario = stable("a", "b")
    scenario.hold_appends()
    assert scenario.error(scenario.leave("b")) is NONE


def test_the_last_of_a_generation_that_still_syncs_leaves() -> None:
    """Scenario 108. The same from CompletingRebalance: Empty, one generation further (classic-groups 2.4)."""
    scenario = completing("a")
    scenario.leave("a")
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
    assert last_group_record(scenario).generation == 2


def test_a_handed_out_id_does_not_keep_a_group_of_leavers_alive() -> None:
    """Scenario 108. If a pending id remains, the join timer is armed with 0 and fires at once
    (classic-groups 2.4)."""
    scenario = stable("a")
    scenario.join_once("b")
    scenario.leave("a")
    scenario.sleep(1)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
    request = scenario.join_once("b")  # its id is still good
    assert scenario.is_parked(request)


def test_an_empty_list_of_leavers_is_answered() -> None:
    """Scenario 105. An empty list gives 0 and an empty array (classic-groups 5.3)."""
    scenario = stable("a")
    request = scenario.leave_as()
    assert scenario.replies[request] == LeaveReply(error=NONE, members=())
    assert phase_of(scenario) is Phase.STABLE


def test_nobody_but_a_handed_out_id_can_leave_an_empty_group() -> None:
    """Scenario 105. In Empty: pending id 0, else 25; no transition (classic-groups 2.3)."""
    scenario = emptied("a")
    scenario.join_once("b")
    request = scenario.leave_as(Leaver(scenario.id_of("b")), Leaver(scenario.id_of("a")))
    assert [each.error for each in scenario.replies[request].members] == [NONE, UNKNOWN]
    assert phase_of(scenario) is Phase.EMPTY
    assert not scenario.group.pending


def test_the_session_of_a_leaver_ends_without_effect() -> None:
    """Scenario 107. Cancelled with the leave (classic-groups 2.4)."""
    scenario = stable("a", "b")
    scenario.leave("b")
    scenario.join("a")
    scenario.sync("a")
    keep_alive(scenario, "a", millis=3 * SESSION)
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.group.generation == 2


def test_a_leave_needs_no_generation_and_no_group_id_is_refused() -> None:
    """Scenario 101. An empty group id is a top-level 24 with no members (classic-groups 5.3)."""
    scenario = stable("a")
    request = scenario.leave_as(Leaver(scenario.id_of("a")), group="")
    assert scenario.replies[request] == LeaveReply(error=ErrorCode.INVALID_GROUP_ID, members=())
