"""Static members, KIP-345: those that come back without their id (classic-groups 3.8, 12).

What becomes of static members that stay away is told in ``test_absent_static_members.py``.
"""

import re
from dataclasses import replace

import pytest
from tests.scenario.groups.story import (
    ON_T,
    REBALANCE,
    SESSION,
    assigned,
    commit_error,
    completing,
    group_records,
    joined,
    keep_alive,
    last_group_record,
    names_listed,
    phase_of,
    refused_join,
    refused_sync,
    sleep_until,
    stable,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Leaver
from kohort.groups.replies import JoinedMember, JoinReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, InstanceId, MemberId
from kohort.sim.driver import Scenario
from kohort.sim.members import subscription

I1 = InstanceId("i1")


def static_pair(leader: str = "a") -> Scenario:
    """Stable: "a" is dynamic, "s" is static (instance i1); the one that is named leads."""
    scenario = Scenario()
    if leader == "a":
        scenario.join("a")
    scenario.join("s", instance=I1)
    if leader != "a":
        scenario.join("a")
    scenario.settle()
    assert scenario.leader == leader
    return scenario


@pytest.mark.parametrize("version", [5, 6, 9])
def test_a_new_static_member_is_added_without_a_detour(version: int) -> None:
    """Scenario 63. Given a new static member with id ``""`` at v5+, then no 79; it is added and parked."""
    scenario = Scenario()
    request = scenario.join_once("s", instance=I1, version=version, client_id="app")
    assert scenario.is_parked(request)
    assert not scenario.group.pending
    scenario.sleep(3_000)
    assert re.fullmatch("i1-[0-9a-f-]{36}", scenario.id_of("s"))
    assert scenario.replies[request] == joined(scenario, "s", leader="s", generation=1, listed="s")
    assert scenario.replies[request].members[0].instance_id == I1


def test_a_new_instance_in_a_stable_group_starts_a_rebalance() -> None:
    """Scenario 63. An unknown instance id is a new member like any other."""
    scenario = static_pair()
    request = scenario.join_once("t", instance="i2")
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_follower_that_restarts_causes_no_rebalance(version: int) -> None:
    """Scenario 64. Given Stable static follower, when it rejoins with ``""`` and the same protocols, then no
    rebalance, same generation, new id, record stored before the answer."""
    scenario = static_pair()
    before, stored = scenario.id_of("s"), last_group_record(scenario)
    scenario.sleep(1_000)
    scenario.hold_appends()
    request = scenario.join_once("s", member_id="", version=version)
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.STABLE
    assert last_group_record(scenario) == stored
    scenario.release_appends()
    assert scenario.id_of("s") not in ("", before)
    assert scenario.replies[request] == joined(scenario, "s", leader="a", generation=1)
    assert phase_of(scenario) is Phase.STABLE
    record = last_group_record(scenario)
    assert record.generation == 1
    assert record.leader == scenario.id_of("a")
    assert record.protocol == "range"
    assert {(each.member_id, each.group_instance_id, each.assignment) for each in record.members} == {
        (scenario.id_of("a"), None, b"for-a"),
        (scenario.id_of("s"), I1, b"for-s"),
    }
    synced = scenario.sync("s")
    assert scenario.replies[synced] == assigned(b"for-s")
    assert len(group_records(scenario)) == 2


def test_a_static_leader_that_restarts_is_told_not_to_assign() -> None:
    """Scenario 65. Given Stable static leader restarting at v9, then leader = new id, full list,
    skip_assignment true."""
    scenario = static_pair(leader="s")
    request = scenario.join_once("s", member_id="", version=9)
    reply = scenario.replies[request]
    assert replace(reply, members=()) == JoinReply(
        error=ErrorCode.NONE,
        generation=Generation(1),
        protocol_type="consumer",
        protocol_name="range",
        leader=scenario.id_of("s"),
        member_id=scenario.id_of("s"),
        skip_assignment=True,
        members=(),
    )
    assert len(reply.members) == 2
    assert set(reply.members) == {
        JoinedMember(scenario.id_of("a"), None, ON_T),
        JoinedMember(scenario.id_of("s"), I1, ON_T),
    }
    assert scenario.leader == "s"
    assert last_group_record(scenario).leader == scenario.id_of("s")
    assert scenario.replies[scenario.sync("s")] == assigned(b"for-s")


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_an_older_static_leader_that_restarts_does_not_know_it_leads(version: int) -> None:
    """Scenario 66. Given the same at v8, then leader = old id, empty list."""
    scenario = static_pair(leader="s")
    before = scenario.id_of("s")
    request = scenario.join_once("s", member_id="", version=version)
    assert scenario.replies[request] == JoinReply(
        error=ErrorCode.NONE,
        generation=Generation(1),
        protocol_type="consumer",
        protocol_name="range",
        leader=before,
        member_id=scenario.id_of("s"),
        skip_assignment=False,
        members=(),
    )
    assert scenario.id_of("s") != before
    assert scenario.leader == "s"  # it does lead, under its new id


def test_a_restart_that_changes_the_vote_is_a_rebalance() -> None:
    """Scenario 67. Given a static restart whose protocol list changes the vote, then a rebalance."""
    scenario = Scenario()
    scenario.join("a", protocols=["roundrobin", "range"])
    scenario.join("s", instance=I1, protocols=["range", "roundrobin"])
    scenario.settle()
    assert scenario.group.protocol == "range"
    records = len(group_records(scenario))
    request = scenario.join_once("s", member_id="", protocols=["roundrobin", "range"])
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert len(group_records(scenario)) == records
    scenario.join("a")
    reply = scenario.replies[request]
    assert (reply.error, reply.generation, reply.protocol_name) == (ErrorCode.NONE, 2, "roundrobin")


def test_a_restart_with_another_list_but_the_same_vote_is_none() -> None:
    """Scenario 68. Given a static restart with changed list but same vote, then no rebalance and the new
    list is kept."""
    scenario = static_pair()
    request = scenario.join_once("s", member_id="", protocols=["range", "sticky"], topics=["u"])
    assert scenario.replies[request] == joined(scenario, "s", leader="a", generation=1)
    assert phase_of(scenario) is Phase.STABLE
    mine = scenario.group.members[scenario.id_of("s")]
    assert [each.name for each in mine.protocols] == ["range", "sticky"]
    described = scenario.replies[scenario.admin.describe()].members
    assert subscription("u") in {each.metadata for each in described}
    again = scenario.join_once("s")  # with its id, and the same list: nothing new
    assert scenario.replies[again] == joined(scenario, "s", leader="a", generation=1)


def test_a_restart_that_cannot_be_stored_never_was() -> None:
    """Scenario 69, with decision 0016. Given the append fails with UNKNOWN_TOPIC_OR_PARTITION during a static
    restart, then 15, member id ``""``; the old id still works, with the old timeouts."""
    scenario = static_pair()
    before, leader = scenario.id_of("s"), scenario.id_of("a")
    records = group_records(scenario)
    scenario.fail_next_append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    request = scenario.join_once(
        "s", member_id="", protocols=["range", "sticky"], session_timeout=20_000, rebalance_timeout=50_000
    )
    assert scenario.replies[request] == JoinReply(
        error=ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id=MemberId("")
    )
    assert group_records(scenario) == records
    assert phase_of(scenario) is Phase.STABLE
    assert list(scenario.group.members) == [leader, before]
    assert scenario.group.leader == leader
    assert scenario.group.instances == {I1: before}
    assert [each.name for each in scenario.group.members[before].protocols] == ["range"]
    assert scenario.group.rebalance_timeout_ms == REBALANCE
    assert scenario.heartbeat("s", member_id=before) is ErrorCode.NONE
    start = scenario.now
    keep_alive(scenario, "a", millis=SESSION - 1)
    assert before in scenario.group.members
    sleep_until(scenario, start + SESSION)
    assert before not in scenario.group.members


def test_a_restart_that_is_too_large_for_the_log_takes_a_rebalance() -> None:
    """classic-groups 3.8: the new id cannot be stored, so the group does not go on as it is."""
    scenario = static_pair()
    scenario.node.shard.state.settings = GroupSettings(max_batch_bytes=100)
    request = scenario.join_once("s", member_id="")
    assert scenario.is_parked(request)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_the_old_session_starts_anew_when_a_restart_cannot_be_stored() -> None:
    """Scenario 69. The shard is loaded again, so the old id's session starts anew."""
    scenario = static_pair()
    before, start = scenario.id_of("s"), scenario.now
    scenario.hold_appends()
    keep_alive(scenario, "a", millis=4_000, every=2_000)
    scenario.join_once("s", member_id="")
    keep_alive(scenario, "a", millis=4_000, every=2_000)
    scenario.fail_next_append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    scenario.release_appends()
    keep_alive(scenario, "a", millis=SESSION - 1)
    assert before in scenario.group.members
    sleep_until(scenario, start + 8_000 + SESSION)
    assert before not in scenario.group.members


def test_a_parked_join_of_the_old_id_is_fenced() -> None:
    """Scenario 70. Given a parked join of the old id, when the instance id restarts, then the old request
    gets 82."""
    scenario = stable("a", "b")
    older = scenario.join("s", instance=I1)
    scenario.join("a")
    before = scenario.group.instances[I1]
    newer = scenario.join_once("s", member_id="")
    assert scenario.replies[older] == refused_join(ErrorCode.FENCED_INSTANCE_ID, before)
    assert scenario.is_parked(newer)
    scenario.join("b")
    assert scenario.replies[newer] == joined(scenario, "s", leader="a", generation=2)
    assert scenario.id_of("s") != before


def test_a_restart_while_the_others_join_again_can_complete_the_join_phase() -> None:
    """Scenario 70. In PreparingRebalance: replace, park; try complete (classic-groups 2.3)."""
    scenario = static_pair()
    of_a = scenario.join("a")
    request = scenario.join_once("s", member_id="")
    assert scenario.replies[of_a] == joined(scenario, "a", leader="a", generation=2, listed="a s")
    assert scenario.replies[request] == joined(scenario, "s", leader="a", generation=2)


def test_a_parked_sync_of_the_old_id_is_fenced() -> None:
    """Scenario 71. Given a parked sync of the old id in CompletingRebalance, when it restarts, then that sync
    gets 82, other syncs 27, rebalance."""
    scenario = Scenario()
    scenario.join("a")
    scenario.join("b")
    scenario.join("s", instance=I1)
    scenario.sleep(6_000)
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE
    of_b, of_s = scenario.sync("b"), scenario.sync("s")
    request = scenario.join_once("s", member_id="")
    assert scenario.replies[of_s] == refused_sync(ErrorCode.FENCED_INSTANCE_ID)
    assert scenario.replies[of_b] == refused_sync(ErrorCode.REBALANCE_IN_PROGRESS)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.is_parked(request)


def test_a_restart_before_the_assignment_is_always_a_rebalance() -> None:
    """Scenario 71. In CompletingRebalance even unchanged protocols: the leader may already be assigning to
    the old id (classic-groups 3.8)."""
    scenario = completing("s", instance=I1)
    request = scenario.join_once("s", member_id="")
    assert scenario.replies[request] == joined(scenario, "s", leader="s", generation=2, listed="s")


def test_the_old_id_of_an_instance_is_fenced_everywhere() -> None:
    """Scenario 72. Given (instance id, old member id), then Heartbeat, SyncGroup, JoinGroup and OffsetCommit
    get 82."""
    scenario = static_pair()
    before = scenario.id_of("s")
    scenario.join_once("s", member_id="")
    assert scenario.heartbeat("s", member_id=before) is ErrorCode.FENCED_INSTANCE_ID
    synced = scenario.sync("s", member_id=before)
    assert scenario.replies[synced] == refused_sync(ErrorCode.FENCED_INSTANCE_ID)
    committed = scenario.commit("s", {("t", 0): 1}, member_id=before)
    assert commit_error(scenario, committed) is ErrorCode.FENCED_INSTANCE_ID
    request = scenario.join_once("ghost", member_id=before, instance=I1)
    assert scenario.replies[request] == refused_join(ErrorCode.FENCED_INSTANCE_ID, before)
    assert phase_of(scenario) is Phase.STABLE


def test_the_old_id_without_its_instance_is_unknown() -> None:
    """Scenario 72. Requests with the old id and no instance id get 25 (classic-groups 3.8)."""
    scenario = static_pair()
    before = scenario.id_of("s")
    scenario.join_once("s", member_id="")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert scenario.heartbeat("s", member_id=before, instance=None) is unknown
    synced = scenario.sync("s", member_id=before, instance=None)
    assert scenario.replies[synced] == refused_sync(unknown)
    committed = scenario.commit("s", {("t", 0): 1}, member_id=before, instance=None)
    assert commit_error(scenario, committed) is unknown
    request = scenario.join_once("ghost", member_id=before)
    assert scenario.replies[request] == refused_join(unknown, before)
    left = scenario.leave_as(Leaver(before))
    assert scenario.replies[left].members[0].error is unknown


@pytest.mark.parametrize("name", ["a", "s"])
def test_a_known_member_with_an_unknown_instance_is_unknown(name: str) -> None:
    """Scenario 73. Given a known member id with an unknown instance id, then 25."""
    scenario = static_pair()
    mine, unknown = scenario.id_of(name), ErrorCode.UNKNOWN_MEMBER_ID
    assert scenario.heartbeat(name, instance="other") is unknown
    synced = scenario.sync(name, instance="other")
    assert scenario.replies[synced] == refused_sync(unknown)
    committed = scenario.commit(name, {("t", 0): 1}, instance="other")
    assert commit_error(scenario, committed) is unknown
    request = scenario.join_once("ghost", member_id=mine, instance="other")
    assert scenario.replies[request] == refused_join(unknown, mine)
    assert names_listed(scenario, request) == set()
    assert phase_of(scenario) is Phase.STABLE


def test_every_restart_gives_another_id() -> None:
    """Scenario 78. Given two restarts in a row, then two different member ids."""
    scenario = static_pair()
    seen = [scenario.id_of("s")]
    for _ in range(2):
        scenario.join_once("s", member_id="")
        seen.append(scenario.id_of("s"))
    assert len(set(seen)) == 3
    assert scenario.heartbeat("s") is ErrorCode.NONE
    assert scenario.heartbeat("s", member_id=seen[1]) is ErrorCode.FENCED_INSTANCE_ID
