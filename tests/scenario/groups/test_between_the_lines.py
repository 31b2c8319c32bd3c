"""What follows from several sections at once, or is said in half a sentence (``classic-groups.md``)."""

from struct import pack

import pytest
from tests.scenario.groups.states import in_state
from tests.scenario.groups.story import (
    REBALANCE,
    assigned,
    completing,
    joined,
    keep_alive,
    last_group_record,
    phase_of,
    refused_join,
    sleep_until,
    stable,
    state_of,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Leaver, SweepOffsets
from kohort.groups.events import RebalanceStarted
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import InstanceId
from kohort.records.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from kohort.records.offsets_topic import encode_key, encode_value
from kohort.records.record import Record
from kohort.sim.clock import EPOCH
from kohort.sim.driver import Scenario

I1 = InstanceId("i1")
RETENTION = 3_600_000
SWEPT_BY_HAND = GroupSettings(
    offsets_retention_ms=RETENTION, offsets_retention_check_interval_ms=1_000_000_000_000
)


# --- protocols (classic-groups 3.5) -------------------------------------------------------------------------


def test_a_group_whose_only_joiner_left_during_the_delay_keeps_its_type() -> None:
    """classic-groups 3.5: in P with zero members any name passes but the type must still match."""
    scenario = Scenario()
    scenario.join("a", protocols=["range"])
    scenario.leave("a")
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    refused = scenario.join_once("w", protocol_type="connect", protocols=["range"])
    assert scenario.replies[refused] == refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    nothing = scenario.join_once("n", protocols=[])
    assert scenario.error(nothing) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request = scenario.join("b", protocols=["other"])
    sleep_until(scenario, 6_000)
    assert scenario.replies[request].protocol_name == "other"
    assert scenario.replies[request].leader == scenario.id_of("b")


@pytest.mark.parametrize("version", [3, 9])
def test_a_list_that_repeats_a_name_is_malformed(version: int) -> None:
    """classic-groups 3.5: it would make the name unselectable; treat as malformed input. Nothing changes."""
    scenario = stable("a", "b")
    request = scenario.join_once("c", protocols=["range", "range"], version=version)
    assert scenario.error(request) is not ErrorCode.NONE
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.members == ["a", "b"]


def test_who_stays_decides_which_protocols_are_common() -> None:
    """classic-groups 3.5: counters follow the membership: when the one who lacked a protocol is gone, it
    counts again."""
    scenario = Scenario()
    scenario.join("a", protocols=["sticky", "range"])
    scenario.join("b", protocols=["range"])
    scenario.settle()
    assert scenario.group.protocol == "range"
    refused = scenario.join_once("c", protocols=["sticky"])
    assert scenario.error(refused) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    scenario.leave("b")
    of_c = scenario.join("c", protocols=["sticky"])
    scenario.join("a")
    assert scenario.replies[of_c].protocol_name == "sticky"


# --- static members (classic-groups 3.8) --------------------------------------------------------------------


def test_a_restart_before_the_first_sync_costs_one_rebalance() -> None:
    """classic-groups 3.8, quirk: replacing a member that had not yet synced in S leaves a stale id; sync
    expiry then forces one extra rebalance, and removes nobody."""
    scenario = Scenario()
    scenario.join("a")
    scenario.join("s", instance=I1)
    sleep_until(scenario, 6_000)
    scenario.sync("a")
    scenario.join_once("s", member_id="")
    assert scenario.replies[scenario.sync("s")] == assigned(b"for-s")
    rebalances = len(scenario.why(RebalanceStarted))
    keep_alive(scenario, "a", "s", millis=REBALANCE - 1)
    assert len(scenario.why(RebalanceStarted)) == rebalances
    sleep_until(scenario, 6_000 + REBALANCE)
    assert len(scenario.why(RebalanceStarted)) == rebalances + 1
    assert set(scenario.members) == {"a", "s"}


def test_a_static_member_of_a_loaded_group_may_restart() -> None:
    """classic-groups 3.8, 7.4: instance ids come back from the log."""
    scenario = Scenario()
    scenario.join("a")
    scenario.join("s", instance=I1)
    scenario.settle()
    scenario.restart()
    before = scenario.id_of("s")
    request = scenario.join_once("s", member_id="")
    assert scenario.replies[request] == joined(scenario, "s", leader="a", generation=1)
    assert scenario.heartbeat("s", member_id=before) is ErrorCode.FENCED_INSTANCE_ID
    assert scenario.replies[scenario.sync("s")] == assigned(b"for-s")


def test_an_instance_that_restarts_twice_before_the_first_is_stored_has_the_second_id() -> None:
    """Decision 0016: the first restart is answered as it was decided; its id is fenced from then on."""
    scenario = in_state("S")
    scenario.hold_appends()
    older = scenario.join_once("s", member_id="")
    between = scenario.group.instances[I1]
    newer = scenario.join_once("s", member_id="")
    scenario.release_appends()
    assert scenario.replies[older].member_id == between
    assert scenario.replies[newer] == joined(scenario, "s", leader="a", generation=1)
    assert scenario.heartbeat("s") is ErrorCode.NONE
    assert scenario.heartbeat("s", member_id=between) is ErrorCode.FENCED_INSTANCE_ID


def test_a_restart_that_cannot_be_stored_leaves_a_group_that_can_go_on() -> None:
    """A member that came meanwhile, for a protocol that only the restarted one brought, has to come again."""
    scenario = stable("s", instance=I1, protocols=["range"], session_timeout=60_000)
    scenario.hold_appends()
    scenario.join_once("s", member_id="", protocols=["range", "sticky"])
    scenario.join("c", version=3, protocols=["sticky"])
    scenario.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    scenario.release_appends()
    scenario.sleep(2 * REBALANCE)  # no crash of the coordinator
    assert scenario.exists
    request = scenario.join("d", version=3, protocols=["range", "sticky"])
    scenario.sleep(2 * REBALANCE)
    assert not scenario.is_parked(request)


def test_a_static_member_may_leave_without_naming_its_instance() -> None:
    """classic-groups 5.3: the checks look at an instance id only if one is given."""
    scenario = in_state("S")
    request = scenario.leave_as(Leaver(scenario.id_of("s")))
    assert scenario.replies[request].members[0].error is ErrorCode.NONE
    assert scenario.members == ["a", "b"]
    again = scenario.join_once("s", member_id="")  # its instance is unknown again: a new member
    assert scenario.is_parked(again)


# --- leaders (classic-groups 3.7) ---------------------------------------------------------------------------


@pytest.mark.parametrize("state", list("PCS"))
def test_a_group_always_has_a_leader_among_its_members(state: str) -> None:
    """classic-groups 3.7: when the leader is removed the first remaining member becomes leader at once."""
    scenario = in_state(state)
    scenario.leave("a")
    assert scenario.leader == "b"
    scenario.leave("b")
    assert scenario.group.leader in scenario.group.members


def test_a_new_leader_that_has_not_joined_does_not_lead_the_generation() -> None:
    """classic-groups 3.7: step 4 corrects the choice if needed."""
    scenario = stable("a", "b", "c")
    scenario.leave("a")
    assert scenario.leader == "b"
    of_c = scenario.join("c")
    keep_alive(scenario, "b", millis=REBALANCE)
    assert scenario.replies[of_c] == joined(scenario, "c", leader="c", generation=2, listed="c")


# --- requests of ids that are only handed out --------------------------------------------------


@pytest.mark.parametrize("state", list("EPCS"))
def test_a_handed_out_id_is_no_member_yet(state: str) -> None:
    """classic-groups 2.1: heartbeats and syncs of a pending id get 25, and do not keep it alive."""
    scenario = in_state(state)
    generation = scenario.group.generation
    assert scenario.heartbeat("p", generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    synced = scenario.sync("p", generation=generation)
    assert scenario.error(synced) is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(scenario.group.pending) == [scenario.id_of("p")]


def test_an_older_leave_from_a_dead_group_has_the_groups_error() -> None:
    """classic-groups 5.3: the top-level error if any, else that member's error."""
    scenario = in_state("D")
    request = scenario.leave("b", version=2)
    assert scenario.error(request) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- what a record remembers (classic-groups 7.2, 8.5) -----------------------------------------------------


def test_retention_of_an_emptied_group_counts_through_a_restart() -> None:
    """classic-groups 7.2: the record of an empty generation has the time E began, which later drives offset
    retention."""
    scenario = stable("a", settings=SWEPT_BY_HAND)
    scenario.commit("a", {("t", 0): 1})
    scenario.leave("a")
    scenario.sleep(RETENTION - 1)
    scenario.restart()
    scenario.order(SweepOffsets())
    assert scenario.committed("t", 0) == 1
    scenario.sleep(1)
    scenario.order(SweepOffsets())
    assert scenario.committed("t", 0) == -1
    assert state_of(scenario) == ""


def test_retention_of_a_group_of_unknown_age_counts_from_each_commit() -> None:
    """classic-groups 8.5: state timestamp; if none, commit timestamp. (Record versions 0 and 1 have none.)"""
    old_record = pack(">h", 1) + pack(">h", 8) + b"consumer" + pack(">ihhi", 2, -1, -1, 0)
    scenario = Scenario(SWEPT_BY_HAND)
    committed = EPOCH + 1_000
    scenario.node.log += [
        Record(0, EPOCH, encode_key(GroupMetadataKey("g")), old_record),
        Record(
            1,
            EPOCH,
            encode_key(OffsetCommitKey("g", "t", 0)),
            encode_value(OffsetCommitValue(1, commit_timestamp=committed)),
        ),
    ]
    scenario.restart()
    assert state_of(scenario) == "Empty"
    sleep_until(scenario, 1_000 + RETENTION - 1)
    scenario.order(SweepOffsets())
    assert scenario.committed("t", 0) == 1
    scenario.sleep(1)
    scenario.order(SweepOffsets())
    assert scenario.committed("t", 0) == -1


def test_the_record_of_a_generation_has_what_the_leader_saw() -> None:
    """classic-groups 7.3: subscription = the member's metadata for the selected protocol only."""
    scenario = Scenario()
    scenario.join("a", protocols=[("range", b"a-range"), ("roundrobin", b"a-rr")])
    scenario.join("b", protocols=[("roundrobin", b"b-rr")])
    scenario.settle()
    record = last_group_record(scenario)
    assert record.protocol == "roundrobin"
    assert {each.subscription for each in record.members} == {b"a-rr", b"b-rr"}


def test_two_groups_of_one_partition_do_not_disturb_each_other() -> None:
    """classic-groups 2.4: timer keys are per group or per (group, member)."""
    scenario = completing("a")
    scenario.join("a", group="h")
    scenario.sync_all()
    keep_alive(scenario, "a", millis=50_000)
    assert phase_of(scenario) is Phase.STABLE
    assert state_of(scenario, "h") == "Empty"  # there nobody sent a heartbeat
