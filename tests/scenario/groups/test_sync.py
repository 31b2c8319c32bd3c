"""SyncGroup: who gets which assignment, and when (classic-groups 4, 12)."""

import pytest
from tests.scenario.groups.story import (
    REBALANCE,
    SESSION,
    assigned,
    completing,
    emptied,
    keep_alive,
    last_group_record,
    phase_of,
    preparing,
    refused_sync,
    sleep_until,
    stable,
)

from kohort.groups.availability import Absence, answer_while
from kohort.groups.causes import AppendRefused
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Heartbeat, Sync
from kohort.groups.events import AssignmentDropped, RebalanceStarted
from kohort.groups.replies import HeartbeatReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, MemberId, ReplyTo
from kohort.sim.driver import Scenario

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_into_a_group_that_is_not_there_or_empty_is_from_nobody() -> None:
    """Scenario 79. Given unknown group, then 25; Empty group, 25."""
    nowhere = Scenario()
    request = nowhere.sync("a", member_id="x", generation=0)
    assert nowhere.replies[request] == refused_sync(UNKNOWN)
    assert not nowhere.exists
    scenario = emptied("a")
    request = scenario.sync("a", generation=2)
    assert scenario.replies[request] == refused_sync(UNKNOWN)


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_sync_of_another_generation_is_refused(generation: int) -> None:
    """Scenario 79. Wrong generation, 22."""
    for scenario in (completing("a", "b"), stable("a", "b"), preparing("a", "b")):
        request = scenario.sync("b", generation=generation)
        assert scenario.replies[request] == refused_sync(ErrorCode.ILLEGAL_GENERATION)


def test_a_sync_of_an_unknown_member_is_refused() -> None:
    """Scenario 79. Unknown member, 25 (a handed-out id is no member yet)."""
    for scenario in (completing("a", "b"), stable("a", "b"), preparing("a", "b")):
        request = scenario.sync("a", member_id="x")
        assert scenario.replies[request] == refused_sync(UNKNOWN)
        scenario.join_once("c")
        request = scenario.sync("c", generation=1)
        assert scenario.replies[request] == refused_sync(UNKNOWN)


@pytest.mark.parametrize("name", [None, "roundrobin", ""])
def test_a_newer_sync_must_name_the_selected_protocol(name: str | None) -> None:
    """Scenario 80. Given v5 with null protocol name, then 23; with a wrong name, 23."""
    for scenario in (completing("a", "b"), stable("a", "b")):
        request = scenario.sync("b", protocol_name=name, version=5)
        assert scenario.replies[request] == refused_sync(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@pytest.mark.parametrize("protocol_type", [None, "connect", ""])
def test_a_newer_sync_must_name_the_protocol_type(protocol_type: str | None) -> None:
    """Scenario 80. The same for the protocol type (classic-groups 4.1)."""
    for scenario in (completing("a", "b"), stable("a", "b")):
        request = scenario.sync("b", protocol_type=protocol_type, version=5)
        assert scenario.replies[request] == refused_sync(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@pytest.mark.parametrize("version", [0, 1, 3, 4])
def test_an_older_sync_names_no_protocol(version: int) -> None:
    """Scenario 80. v4 without fields, accepted."""
    scenario = completing("a", "b")
    of_b = scenario.sync("b", version=version)
    assert scenario.is_parked(of_b)
    scenario.sync("a", version=version)
    assert scenario.replies[of_b] == assigned(b"for-b")


def test_followers_wait_until_the_assignment_of_the_leader_is_stored() -> None:
    """Scenario 81. Given CompletingRebalance, when followers sync first, then parked; when the leader syncs,
    then all are answered and state is Stable."""
    scenario = completing("a", "b", "c")
    of_b, of_c = scenario.sync("b"), scenario.sync("c")
    assert scenario.is_parked(of_b)
    assert scenario.is_parked(of_c)
    scenario.hold_appends()
    of_a = scenario.sync("a", {"a": b"1", "b": b"2", "c": b"3"})
    assert all(scenario.is_parked(each) for each in (of_a, of_b, of_c))
    scenario.release_appends()
    assert [scenario.replies[each] for each in (of_a, of_b, of_c)] == [
        assigned(b"1"),
        assigned(b"2"),
        assigned(b"3"),
    ]
    assert phase_of(scenario) is Phase.STABLE


def test_what_followers_bring_is_ignored() -> None:
    """Scenario 81. Followers' assignment arrays are ignored; so is the leader's in Stable
    (classic-groups 4.2)."""
    scenario = completing("a", "b")
    of_b = scenario.sync("b", {"a": b"mine", "b": b"mine"})
    assert scenario.is_parked(of_b)
    scenario.sync("a", {"a": b"1", "b": b"2"})
    assert scenario.replies[of_b] == assigned(b"2")
    again = scenario.sync("a", {"a": b"other", "b": b"other"})
    assert scenario.replies[again] == assigned(b"1")
    assert scenario.replies[scenario.sync("b")] == assigned(b"2")


def test_who_syncs_twice_before_the_leader_is_answered_once() -> None:
    """Scenario 81. A repeated sync of the same member overwrites the parked one (classic-groups 4.2)."""
    scenario = completing("a", "b")
    older, newer = scenario.sync("b"), scenario.sync("b")
    assert scenario.is_parked(newer)
    scenario.sync("a")
    assert scenario.replies[newer] == assigned(b"for-b")
    assert scenario.is_parked(older) or scenario.error(older) is AGAIN


def test_a_member_the_leader_forgot_gets_nothing() -> None:
    """Scenario 82. Given the leader omits a member, then that member gets empty assignment and no error."""
    scenario = completing("a", "b")
    of_b = scenario.sync("b")
    scenario.sync("a", {"a": b"all"})
    assert scenario.replies[of_b] == assigned(b"")
    assert {each.assignment for each in last_group_record(scenario).members} == {b"all", b""}


def test_a_member_the_leader_invented_is_not_stored() -> None:
    """Scenario 83. Given the leader lists an unknown member id, then it is ignored and not stored."""
    scenario = completing("a", "b")
    scenario.sync("a", {"a": b"1", "b": b"2", "nobody": b"3"})
    assert phase_of(scenario) is Phase.STABLE
    assert {(each.member_id, each.assignment) for each in last_group_record(scenario).members} == {
        (scenario.id_of("a"), b"1"),
        (scenario.id_of("b"), b"2"),
    }
    assert scenario.members == ["a", "b"]


def test_a_late_follower_gets_its_stored_assignment_at_once() -> None:
    """Scenario 84. Given Stable, when a late follower syncs, then its stored assignment is returned at
    once."""
    scenario = completing("a", "b")
    scenario.sync("a")
    assert phase_of(scenario) is Phase.STABLE
    keep_alive(scenario, "a", "b", millis=20_000)
    assert scenario.replies[scenario.sync("b")] == assigned(b"for-b")


def test_a_sync_in_a_stable_group_extends_the_session() -> None:
    """Scenario 84. Kohort re-arms the session when it answers a sync in Stable (classic-groups 10 #10)."""
    scenario = stable("a", "b")
    start = scenario.now
    keep_alive(scenario, "a", millis=6_000)
    scenario.sync("b")
    keep_alive(scenario, "a", millis=SESSION - 1)
    assert scenario.members == ["a", "b"]
    sleep_until(scenario, start + 6_000 + SESSION)
    assert scenario.members == ["a"]


def test_a_sync_while_members_join_again_is_too_late() -> None:
    """Scenario 85. Given PreparingRebalance and a valid sync, then 27; no timer changes
    (classic-groups 4.2)."""
    scenario = preparing("a", "b", session_timeout=SESSION)
    start = scenario.now
    scenario.sleep(4_000)
    assert scenario.replies[scenario.sync("b")] == refused_sync(AGAIN)
    scenario.heartbeat("a")
    sleep_until(scenario, start + SESSION - 1)
    assert "b" in scenario.members
    sleep_until(scenario, start + SESSION)
    assert "b" not in scenario.members


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_log_that_fails_sends_everyone_away_and_the_group_is_what_is_stored(
    refusal: ErrorCode, error: ErrorCode
) -> None:
    """Scenario 86, with decision 0016. Parked syncs get the mapped error (classic-groups 7.5); the shard
    is loaded from its log, and members that join again start a rebalance."""
    scenario = stable("a", "b")
    scenario.join("c", version=3)
    for name in ("a", "b"):
        scenario.join(name)
    of_b = scenario.sync("b")
    assert scenario.group.generation == 2
    scenario.fail_next_append(refusal)
    of_a = scenario.sync("a")
    assert scenario.replies[of_a] == refused_sync(error)
    assert scenario.replies[of_b] == refused_sync(error)
    assert phase_of(scenario) is Phase.STABLE
    assert (scenario.group.generation, scenario.members) == (1, ["a", "b"])
    scenario.join("a")
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


def test_an_assignment_that_is_too_large_for_the_log_is_refused_and_all_join_again() -> None:
    """Scenario 86, classic-groups 4.3 and 7.5: the failure path of SyncGroup. Nothing is stored, everyone who
    waits gets the error, assignments are reset, and a rebalance follows."""
    scenario = completing("a", "b", "c", settings=GroupSettings(max_batch_bytes=2_000))
    of_b = scenario.sync("b")
    of_a = scenario.sync("a", {"a": b"x" * 1_000, "b": b"y" * 1_000})
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    assert scenario.replies[of_a] == refused_sync(error)
    assert scenario.replies[of_b] == refused_sync(error)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.group.generation == 1
    assert {member.assignment for member in scenario.group.members.values()} == {b""}
    assert not scenario.log
    dropped, started = scenario.events[-2:]
    assert isinstance(dropped, AssignmentDropped)
    assert isinstance(started, RebalanceStarted)
    assert started.cause == AppendRefused(ErrorCode.MESSAGE_TOO_LARGE)


def test_sessions_start_anew_when_an_assignment_is_too_large() -> None:
    """Scenario 86. Failed syncs re-arm their members' sessions (classic-groups 4.3)."""
    scenario = completing("a", "b", "c", settings=GroupSettings(max_batch_bytes=2_000))
    start = scenario.now
    scenario.sync("b")
    scenario.sleep(6_000)
    scenario.sync("a", {"a": b"x" * 2_000})
    sleep_until(scenario, start + SESSION)
    assert scenario.members == ["a", "b"]  # "c" had not synced: its session ran on
    sleep_until(scenario, start + 6_000 + SESSION - 1)
    assert scenario.members == ["a", "b"]
    sleep_until(scenario, start + 6_000 + SESSION)
    assert phase_of(scenario) is Phase.EMPTY


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_rebalance_that_starts_while_the_assignment_is_being_stored_leaves_it(
    is_refused: bool,
) -> None:
    """Scenario 87, with decision 0016. Members get the assignment that was decided, when it is stored, and
    learn of the rebalance by their next heartbeat."""
    scenario = completing("a", "b")
    of_b = scenario.sync("b")
    scenario.hold_appends()
    of_a = scenario.sync("a")
    joining = scenario.join("c", version=3)
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    assert scenario.is_parked(of_a)
    if is_refused:
        scenario.fail_next_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    scenario.release_appends()
    expected = ErrorCode.NOT_COORDINATOR if is_refused else ErrorCode.NONE
    assert (scenario.error(of_a), scenario.error(of_b)) == (expected, expected)
    if is_refused:
        assert scenario.error(joining) is ErrorCode.NOT_COORDINATOR
        assert not scenario.exists  # it never was in a generation that is stored
    else:
        assert scenario.is_parked(joining)
        assert scenario.heartbeat("a") is AGAIN


def test_an_assignment_of_an_older_generation_does_not_count_for_a_newer_one() -> None:
    """Scenario 87. Who has joined again waits for the assignment of its own generation."""
    scenario = completing("a", "b")
    scenario.hold_appends()
    scenario.sync("a")
    scenario.join("b", changed=True)
    scenario.join("a")
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE
    assert scenario.group.generation == 2
    of_b = scenario.sync("b")
    scenario.release_appends()
    assert phase_of(scenario) is Phase.COMPLETING_REBALANCE
    assert scenario.is_parked(of_b)


def test_a_generation_in_which_nobody_syncs_dissolves() -> None:
    """Scenario 88. Given nobody syncs for the rebalance timeout while heartbeating, then all are removed and
    the group is Empty, generation +1."""
    scenario = completing("a", "b")
    keep_alive(scenario, "a", "b", millis=REBALANCE - 1)
    assert scenario.members == ["a", "b"]
    scenario.sleep(1)
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
    assert scenario.heartbeat("a") is UNKNOWN


def test_followers_that_never_sync_are_removed() -> None:
    """Scenario 89. Given only the leader synced, then at sync expiry followers are removed and the leader's
    heartbeat gets 27."""
    scenario = completing("a", "b", "c")
    start = scenario.now
    scenario.sync("a")
    keep_alive(scenario, "a", "b", "c", millis=REBALANCE - 1)
    assert scenario.members == ["a", "b", "c"]
    assert scenario.heartbeat("a") is ErrorCode.NONE
    sleep_until(scenario, start + REBALANCE)
    assert scenario.members == ["a"]
    assert scenario.heartbeat("a") is AGAIN
    assert scenario.heartbeat("b") is UNKNOWN


def test_a_leader_that_never_syncs_is_removed() -> None:
    """Scenario 90. Given only followers synced, then at expiry the leader is removed, followers' syncs get
    27."""
    scenario = completing("a", "b", "c")
    of_b, of_c = scenario.sync("b"), scenario.sync("c")
    keep_alive(scenario, "a", millis=REBALANCE - 1)
    assert scenario.is_parked(of_b)
    scenario.sleep(1)
    assert scenario.replies[of_b] == refused_sync(AGAIN)
    assert scenario.replies[of_c] == refused_sync(AGAIN)
    assert scenario.members == ["b", "c"]
    assert scenario.leader == "b"
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE


@pytest.mark.parametrize("late", [0, 20_000])
def test_when_everyone_has_synced_the_deadline_passes_unnoticed(late: int) -> None:
    """Scenario 91. Given all synced, then nothing happens at the sync deadline."""
    scenario = completing("a", "b")
    scenario.sync("a")
    keep_alive(scenario, "a", "b", millis=late)
    scenario.sync("b")
    keep_alive(scenario, "a", "b", millis=2 * REBALANCE)
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.group.generation == 1
    assert scenario.members == ["a", "b"]


def test_while_a_partition_loads_members_are_kept_calm() -> None:
    """Scenario 92. Given the partition is loading, then SyncGroup gets 27 and Heartbeat 0."""
    who = (GroupId("g"), MemberId("m"), Generation(1))
    sync = Sync(reply_to=ReplyTo(1), group_id=who[0], member_id=who[1], generation=who[2], version=4)
    beat = Heartbeat(reply_to=ReplyTo(2), group_id=who[0], member_id=who[1], generation=who[2])
    settings = GroupSettings()
    assert answer_while(Absence.LOADING, sync, settings) == refused_sync(AGAIN)
    assert answer_while(Absence.LOADING, beat, settings) == HeartbeatReply(error=ErrorCode.NONE)
    for absence, error in (
        (Absence.NOT_OWNED, ErrorCode.NOT_COORDINATOR),
        (Absence.STOPPED, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ):
        assert answer_while(absence, sync, settings) == refused_sync(error)
        assert answer_while(absence, beat, settings) == HeartbeatReply(error=error)
