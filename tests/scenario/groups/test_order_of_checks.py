"""When two things are wrong at once, which error comes first (classic-groups 3.1, 4.1, 5.1, 8)."""

import pytest
from tests.scenario.groups.states import INSTANCE, in_state, state_letter
from tests.scenario.groups.story import beat, commit_errors, refused_join, refused_sync, stable

from kohort.groups.availability import Absence, answer_while
from kohort.groups.commands import (
    CommitOffsets,
    CommitRow,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    Leaver,
    ListGroups,
    Sync,
)
from kohort.groups.replies import HeartbeatReply, LeaveReply
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, Partition, ReplyTo, TopicName
from kohort.sim.driver import Scenario

UNKNOWN, FENCED = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
INCONSISTENT, ILLEGAL = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.ILLEGAL_GENERATION
AGAIN, DEAD = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
SETTINGS = GroupSettings()


# --- JoinGroup (classic-groups 3.1) -------------------------------------------------------------------------


def test_join_no_group_id_comes_before_a_bad_session_timeout() -> None:
    """#4 before #5."""
    scenario = Scenario()
    request = scenario.join_once("x", group="", member_id="x", session_timeout=1)
    assert scenario.replies[request] == refused_join(ErrorCode.INVALID_GROUP_ID, "x")


def test_join_a_bad_session_timeout_comes_before_an_unknown_group_member_or_protocol() -> None:
    """#5 before #7, #8, #9, #10, #11."""
    for state in "∅EPCSD":
        scenario = in_state(state)
        request = scenario.join_once("x", member_id="x", session_timeout=1, protocols=[])
        assert scenario.replies[request] == refused_join(ErrorCode.INVALID_SESSION_TIMEOUT, "x")


@pytest.mark.parametrize("absence", [Absence.LOADING, Absence.NOT_OWNED])
def test_join_what_is_wrong_with_the_request_comes_before_the_partition(absence: Absence) -> None:
    """#4 and #5 before #6 (N order, classic-groups 10 #1); only #6 hides the member id."""
    no_group = Join(reply_to=ReplyTo(1), group_id=GroupId(""), member_id=MemberId("x"))
    assert answer_while(absence, no_group, SETTINGS) == refused_join(ErrorCode.INVALID_GROUP_ID, "x")
    too_short = Join(
        reply_to=ReplyTo(1), group_id=GroupId("g"), member_id=MemberId("x"), session_timeout_ms=1
    )
    assert answer_while(absence, too_short, SETTINGS) == refused_join(ErrorCode.INVALID_SESSION_TIMEOUT, "x")


def test_join_a_coordinator_that_is_stopped_comes_first_of_all() -> None:
    """#3 before #4 and #5."""
    request = Join(reply_to=ReplyTo(1), group_id=GroupId(""), member_id=MemberId("x"), session_timeout_ms=1)
    assert answer_while(Absence.STOPPED, request, SETTINGS) == refused_join(DEAD, "x")


def test_join_an_unknown_group_comes_before_bad_protocols() -> None:
    """#7 before #10: no group is made for an id nobody handed out."""
    scenario = Scenario()
    request = scenario.join_once("x", member_id="x", protocols=[], protocol_type="")
    assert scenario.replies[request] == refused_join(UNKNOWN, "x")
    assert not scenario.exists


def test_join_a_full_group_comes_before_bad_protocols_and_unknown_members() -> None:
    """#8 before #10, #11d, #11e and #11f; the answer hides the id."""
    scenario = stable("a", "b", settings=GroupSettings(max_size=2))
    for member_id, instance in (("", None), ("x", None), ("x", "i1"), ("", "i1")):
        request = scenario.join_once("x", member_id=member_id, instance=instance, protocols=["other"])
        assert scenario.replies[request] == refused_join(FULL, "")


def test_join_a_dead_group_is_never_full() -> None:
    """#8 accepts everyone in D; then #9."""
    scenario = stable("a", settings=GroupSettings(max_size=1))
    scenario.unload()
    request = scenario.join_once("x", member_id="x", protocols=["other"])
    assert scenario.replies[request] == refused_join(DEAD, "x")


def test_join_a_dead_group_comes_before_bad_protocols() -> None:
    """#9 before #10 and #11."""
    scenario = in_state("D")
    for member_id in ("", "x"):
        request = scenario.join_once("x", member_id=member_id, protocols=["other"], protocol_type="connect")
        assert scenario.replies[request] == refused_join(DEAD, member_id)


@pytest.mark.parametrize("state", list("PCS"))
def test_join_bad_protocols_come_before_everything_about_the_member(state: str) -> None:
    """#10 before #11a to #11f: 23 and not 79, -1, 25 or 82; nothing changes, nobody is replaced."""
    scenario = in_state(state)
    asked: list[tuple[str, str | None]] = [
        ("", None),
        ("", INSTANCE),
        (scenario.id_of("p"), "i9"),
        (scenario.id_of("p"), None),
        ("x", "i9"),
        ("x", INSTANCE),
        ("x", None),
        (scenario.id_of("b"), None),
    ]
    owner, pending = scenario.group.instances[INSTANCE], list(scenario.group.pending)
    for member_id, instance in asked:
        request = scenario.join_once("z", member_id=member_id, instance=instance, protocols=["other"])
        assert scenario.replies[request] == refused_join(INCONSISTENT, member_id)
    assert scenario.group.instances[INSTANCE] == owner
    assert list(scenario.group.pending) == pending
    assert state_letter(scenario) == state


def test_join_in_an_empty_group_bad_protocols_come_before_unknown_members() -> None:
    """#10 before #11f in E too."""
    scenario = in_state("E")
    request = scenario.join_once("x", member_id="x", protocols=[])
    assert scenario.replies[request] == refused_join(INCONSISTENT, "x")


@pytest.mark.parametrize("state", list("PCS"))
def test_join_a_handed_out_id_with_an_instance_is_a_mistake_whatever_the_instance(state: str) -> None:
    """#11b before #11d and #11e: -1 for an unknown instance and for one that is somebody else's."""
    for instance in ("i9", INSTANCE):
        scenario = in_state(state)
        request = scenario.join_once("p", instance=instance)
        assert scenario.replies[request] == refused_join(ErrorCode.UNKNOWN_SERVER_ERROR, "")


@pytest.mark.parametrize("state", list("PCS"))
def test_join_a_fenced_instance_comes_before_an_unknown_member(state: str) -> None:
    """#11e before #11f: 82 for an unknown id under a known instance; #11d: 25 for an unknown instance."""
    scenario = in_state(state)
    fenced = scenario.join_once("x", member_id="x", instance=INSTANCE)
    assert scenario.replies[fenced] == refused_join(FENCED, "x")
    known = scenario.join_once("y", member_id=scenario.id_of("b"), instance="i9")
    assert scenario.replies[known] == refused_join(UNKNOWN, scenario.id_of("b"))
    another = scenario.join_once("y", member_id=scenario.id_of("b"), instance=INSTANCE)
    assert scenario.replies[another] == refused_join(FENCED, scenario.id_of("b"))


# --- SyncGroup (classic-groups 4.1) -------------------------------------------------------------------------


@pytest.mark.parametrize("state", list("∅EPCSD"))
def test_sync_missing_protocol_fields_come_first(state: str) -> None:
    """#2 before #5 to #13, in every state; also before an empty group id."""
    scenario = in_state(state)
    for group in ("g", ""):
        request = scenario.sync("x", group=group, member_id="x", generation=9, protocol_name=None)
        assert scenario.replies[request] == refused_sync(INCONSISTENT)


@pytest.mark.parametrize("absence", list(Absence))
def test_sync_missing_protocol_fields_come_before_the_partition(absence: Absence) -> None:
    """#2 before #4, #6 and #7."""
    request = Sync(
        reply_to=ReplyTo(1),
        group_id=GroupId("g"),
        member_id=MemberId("x"),
        generation=Generation(1),
        protocol_type="consumer",
        protocol_name=None,
        version=5,
    )
    assert answer_while(absence, request, SETTINGS) == refused_sync(INCONSISTENT)


def test_sync_no_group_id_comes_before_the_group() -> None:
    """#5 before #8."""
    scenario = Scenario()
    request = scenario.sync("x", group="", member_id="x", generation=1)
    assert scenario.replies[request] == refused_sync(ErrorCode.INVALID_GROUP_ID)


def test_sync_a_dead_group_comes_before_the_member() -> None:
    """#9 before #10 and #11."""
    scenario = in_state("D")
    request = scenario.sync("x", member_id="x", generation=9, protocol_name="other")
    assert scenario.replies[request] == refused_sync(DEAD)


@pytest.mark.parametrize("state", list("PCS"))
def test_sync_the_member_then_the_generation_then_the_protocol_then_the_state(state: str) -> None:
    """#10 before #11 before #12 and #13 before the state's own answer."""
    scenario = in_state(state)
    cases: list[tuple[str, str | None, int, str, ErrorCode]] = [
        ("x", None, 9, "other", UNKNOWN),
        (scenario.id_of("s"), "i9", 9, "other", UNKNOWN),
        ("x", INSTANCE, 9, "other", FENCED),
        (scenario.id_of("b"), INSTANCE, 9, "other", FENCED),
        (scenario.id_of("b"), None, 9, "other", ILLEGAL),
        (scenario.id_of("b"), None, 1, "other", INCONSISTENT),
    ]
    for member_id, instance, generation, name, error in cases:
        request = scenario.sync(
            "x", member_id=member_id, instance=instance, generation=generation, protocol_name=name
        )
        assert scenario.replies[request] == refused_sync(error)
    other_type = scenario.sync("b", generation=1, protocol_type="connect")
    assert scenario.replies[other_type] == refused_sync(INCONSISTENT)
    assert state_letter(scenario) == state


# --- Heartbeat (classic-groups 5.1) -------------------------------------------------------------------------


@pytest.mark.parametrize("state", list("PCS"))
def test_heartbeat_the_member_then_the_generation_then_the_state(state: str) -> None:
    """25 and 82 before 22 before 27 or 0."""
    scenario = in_state(state)
    assert scenario.heartbeat("x", member_id="x", generation=9) is UNKNOWN
    assert scenario.heartbeat("s", instance="i9", generation=9) is UNKNOWN
    assert scenario.heartbeat("x", member_id="x", instance=INSTANCE, generation=9) is FENCED
    assert scenario.heartbeat("b", instance=INSTANCE, generation=9) is FENCED
    assert scenario.heartbeat("b", generation=9) is ILLEGAL
    assert scenario.heartbeat("b", generation=1) is (AGAIN if state == "P" else ErrorCode.NONE)


def test_heartbeat_a_dead_group_comes_before_the_member() -> None:
    """15 before 25 and 22; 24 before all of it."""
    scenario = in_state("D")
    assert scenario.heartbeat("x", member_id="x", generation=9) is DEAD
    assert beat(scenario, "b", generation=9) is DEAD
    assert scenario.heartbeat("x", group="", member_id="x") is ErrorCode.INVALID_GROUP_ID


def test_heartbeat_no_group_id_comes_before_loading() -> None:
    """24, then 0 while loading; a stopped coordinator (15) before both."""
    request = Heartbeat(
        reply_to=ReplyTo(1), group_id=GroupId(""), member_id=MemberId("x"), generation=Generation(1)
    )
    for absence, error in (
        (Absence.LOADING, ErrorCode.INVALID_GROUP_ID),
        (Absence.NOT_OWNED, ErrorCode.INVALID_GROUP_ID),
        (Absence.STOPPED, DEAD),
    ):
        assert answer_while(absence, request, SETTINGS) == HeartbeatReply(error=error)


# --- OffsetCommit and the others (classic-groups 8.1, 8.4) --------------------------------------


@pytest.mark.parametrize(
    ("state", "generation", "member", "instance", "error"),
    [
        ("D", -1, "", None, DEAD),
        ("D", 9, "x", "i9", DEAD),
        ("E", -1, "x", "i9", ErrorCode.NONE),  # nobody looks at member and instance
        ("E", 2, "", None, UNKNOWN),
        ("E", 9, "x", "i9", UNKNOWN),
        ("S", 9, "x", "i9", UNKNOWN),
        ("S", 9, "x", INSTANCE, FENCED),
        ("S", -1, "", INSTANCE, FENCED),  # an instance is an identity
        ("S", 9, "b", None, ILLEGAL),
        ("S", -1, "b", None, ILLEGAL),
        ("C", 9, "x", None, UNKNOWN),
        ("C", 9, "b", INSTANCE, FENCED),
        ("C", 9, "b", None, ILLEGAL),
        ("C", -1, "", None, UNKNOWN),  # anonymous, before 27
        ("C", 1, "b", None, AGAIN),
        ("P", 9, "b", None, ILLEGAL),
        ("P", -1, "", None, UNKNOWN),
    ],
)
def test_commit_dead_then_identity_then_generation_then_state(
    state: str, generation: int, member: str, instance: str | None, error: ErrorCode
) -> None:
    """classic-groups 8.1: first match wins; it is repeated on every partition, before the metadata is
    measured."""
    scenario = in_state(state)
    member_id = scenario.id_of("b") if member == "b" else member
    request = scenario.commit(
        None, {("t", 0): 1, ("t", 1): 1}, generation=generation, member_id=member_id, instance=instance
    )
    assert commit_errors(scenario, request) == [error] * 2
    too_long = scenario.commit(
        None,
        {("t", 0): 1},
        generation=generation,
        member_id=member_id,
        instance=instance,
        metadata="x" * 5_000,
    )
    assert commit_errors(scenario, too_long) == [error or ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_delete_offsets_group_id_then_group_then_type_then_subscription() -> None:
    """classic-groups 8.4: 24, 69, 68, and only then 86."""
    workers = stable("w", protocol_type="connect", topics=["t"])
    assert workers.error(workers.admin.delete_offsets(("t", 0), group="")) is ErrorCode.INVALID_GROUP_ID
    assert workers.error(workers.admin.delete_offsets(("t", 0), group="x")) is ErrorCode.GROUP_ID_NOT_FOUND
    request = workers.admin.delete_offsets(("t", 0))
    assert (workers.error(request), workers.replies[request].rows) == (ErrorCode.NON_EMPTY_GROUP, ())


@pytest.mark.parametrize(
    ("absence", "error"),
    [
        (Absence.LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (Absence.NOT_OWNED, ErrorCode.NOT_COORDINATOR),
        (Absence.STOPPED, DEAD),
    ],
)
def test_what_everything_else_gets_while_the_partition_is_not_served(
    absence: Absence, error: ErrorCode
) -> None:
    """Table classic-groups 7.4: Leave, Commit, Fetch, Describe, OffsetDelete, List."""
    to, group = ReplyTo(1), GroupId("g")
    left = answer_while(absence, Leave(reply_to=to, group_id=group, leavers=(Leaver(),)), SETTINGS)
    assert left == LeaveReply(error=error, members=())
    row = CommitRow(TopicName("t"), Partition(0), 1)
    committed = answer_while(absence, CommitOffsets(reply_to=to, group_id=group, rows=(row, row)), SETTINGS)
    assert [each.error for each in getattr(committed, "rows", ())] == [error] * 2
    for request in (
        FetchOffsets(reply_to=to, group_id=group),
        DescribeGroup(reply_to=to, group_id=group),
        DeleteOffsets(reply_to=to, group_id=group, partitions=()),
    ):
        assert getattr(answer_while(absence, request, SETTINGS), "error", None) is error
    listed = answer_while(absence, ListGroups(reply_to=to), SETTINGS)
    expected = ErrorCode.NONE if absence is Absence.NOT_OWNED else error  # skipped, where not owned
    assert (getattr(listed, "error", None), getattr(listed, "groups", None)) == (expected, ())


def test_leave_entries_are_judged_one_by_one_in_order() -> None:
    """classic-groups 5.3: fenced before unknown; a batch with errors still removes the others."""
    scenario = in_state("S")
    request = scenario.leave_as(
        Leaver(MemberId("x"), INSTANCE),
        Leaver(scenario.id_of("s"), InstanceId("i9")),
        Leaver(scenario.id_of("s"), INSTANCE),
        Leaver(MemberId(""), INSTANCE),
    )
    assert [each.error for each in scenario.replies[request].members] == [
        FENCED,
        UNKNOWN,
        ErrorCode.NONE,
        UNKNOWN,
    ]
    assert scenario.members == ["a", "b"]
