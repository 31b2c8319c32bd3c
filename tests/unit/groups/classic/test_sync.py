"""SyncGroup: the assignment, brought, stored and handed out."""

import pytest

from kohort.groups.classic.transitions import Phase
from kohort.groups.events import AssignmentReceived
from kohort.groups.replies import SyncReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import MemberId
from kohort.records.group_records import GroupMetadataValue
from kohort.records.offsets_topic import decode_value
from kohort.sim.driver import Scenario


def completing(*names: str) -> Scenario:
    """A group of these members that waits for the leader's assignment."""
    scenario = Scenario()
    for name in names:
        scenario.join(name)
    while scenario.is_in(Phase.PREPARING_REBALANCE):
        scenario.sleep(1_000)
    return scenario


def test_who_is_not_in_the_generation_is_told_so() -> None:
    scenario = Scenario()
    assert scenario.error(scenario.sync("a")) is ErrorCode.UNKNOWN_MEMBER_ID
    scenario.join_once("a")
    assert scenario.error(scenario.sync("a")) is ErrorCode.UNKNOWN_MEMBER_ID
    scenario.join("a")
    assert scenario.error(scenario.sync("a", generation=0)) is ErrorCode.REBALANCE_IN_PROGRESS
    scenario.sleep(3_000)
    assert scenario.error(scenario.sync("a", generation=7)) is ErrorCode.ILLEGAL_GENERATION
    assert scenario.error(scenario.sync("a", member_id="x")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scenario.error(scenario.sync("a", group="")) is ErrorCode.INVALID_GROUP_ID


def test_in_a_dead_group_there_is_no_coordinator() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.unload()
    assert scenario.error(scenario.sync("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "version", "error"),
    [
        (None, "range", 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", None, 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("connect", "range", 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", 5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (None, None, 4, ErrorCode.NONE),
        ("consumer", "range", 5, ErrorCode.NONE),
    ],
)
def test_the_protocol_must_be_the_one_that_was_chosen(
    protocol_type: str | None, protocol_name: str | None, version: int, error: ErrorCode
) -> None:
    scenario = completing("a")
    request = scenario.sync("a", protocol_type=protocol_type, protocol_name=protocol_name, version=version)
    assert scenario.error(request) is error


def test_followers_wait_for_the_leader_and_everyone_gets_its_own() -> None:
    scenario = completing("a", "b", "c")
    b = scenario.sync("b", {"c": b"not for a follower to say"})
    assert scenario.is_parked(b)
    a = scenario.sync("a", {"a": b"1", "b": b"2", "stranger": b"9"})
    assert scenario.replies[a] == SyncReply(protocol_type="consumer", protocol_name="range", assignment=b"1")
    assert scenario.replies[b].assignment == b"2"
    assert scenario.is_in(Phase.STABLE)
    assert scenario.replies[scenario.sync("c")].assignment == b""  # the leader forgot it
    value = scenario.log[-1].value
    assert value is not None
    members = decode_value(GroupMetadataValue, value).members
    stored = {scenario.name_of(MemberId(member.member_id)): member.assignment for member in members}
    assert stored == {"a": b"1", "b": b"2", "c": b""}
    assert scenario.why(AssignmentReceived) == ["the assignment of generation 1 is stored"]


def test_an_assignment_that_is_stored_when_the_group_is_gone_changes_nothing() -> None:
    scenario = completing("a")
    scenario.hold_appends()
    sync = scenario.sync("a")
    scenario.leave("a")
    scenario.admin.delete_groups("g")
    scenario.release_appends()
    assert scenario.replies[sync].assignment == b"for-a"
    assert not scenario.exists


def test_an_assignment_that_is_stored_when_the_group_was_made_again_changes_nothing() -> None:
    scenario = Scenario(GroupSettings(initial_rebalance_delay_ms=0))
    scenario.hold_appends()
    scenario.join("a")
    scenario.sync("a")
    scenario.leave("a")
    scenario.admin.delete_groups("g")
    scenario.join("b")
    assert (scenario.phase, scenario.group.generation) == (Phase.COMPLETING_REBALANCE, 1)
    scenario.release_appends()
    assert (scenario.phase, scenario.members) == (Phase.COMPLETING_REBALANCE, ["b"])


def test_a_second_sync_of_a_parked_member_replaces_the_first() -> None:
    scenario = completing("a", "b")
    first, second = scenario.sync("b"), scenario.sync("b")
    assert scenario.replies[first] == SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    scenario.sync("a")
    assert scenario.replies[second].assignment == b"for-b"


def test_of_a_leader_that_syncs_twice_the_first_assignment_counts() -> None:
    scenario = completing("a")
    scenario.hold_appends()
    first = scenario.sync("a", {"a": b"first"})
    second = scenario.sync("a", {"a": b"second"})
    assert scenario.is_parked(second)
    scenario.release_appends(1)
    assert scenario.replies[first] == scenario.replies[second]
    assert scenario.replies[second].assignment == b"first"


def test_in_a_stable_group_a_sync_is_answered_and_keeps_the_session() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.sleep(9_000)
    assert scenario.replies[scenario.sync("a", {"a": b"ignored"})].assignment == b"for-a"
    scenario.sleep(9_000)
    assert scenario.members == ["a"]


def test_the_last_late_sync_ends_the_wait_for_syncs() -> None:
    scenario = completing("a", "b")
    scenario.sync("a")
    assert list(scenario.group.pending_sync) == [scenario.id_of("b")]
    scenario.sync("b")
    assert not scenario.group.pending_sync
    assert len(scenario.shard.state.rebalances) == 0


def test_a_sync_keeps_no_session_while_it_is_parked_but_its_answer_starts_it_anew() -> None:
    scenario = completing("a", "b")
    scenario.sync("b")
    for _ in range(3):
        scenario.sleep(5_000)
        scenario.heartbeat("a")
    assert scenario.members == ["a", "b"]  # 15 s after the join, b's session of 10 s was not counted
    scenario.sync("a")
    scenario.heartbeat("a")
    scenario.sleep(9_999)
    assert "b" in scenario.members
    scenario.heartbeat("a")
    scenario.sleep(1)
    assert scenario.members == ["a"]
