"""JoinGroup: what is refused before anything happens (classic-groups 3.1, 12)."""

import pytest
from tests.scenario.groups.story import (
    REBALANCE,
    await_generation,
    emptied,
    keep_alive,
    phase_of,
    refused_join,
    sleep_until,
    stable,
    state_of,
)

from kohort.groups.availability import Absence, answer_while
from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import Join, Protocol
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, MemberId, ReplyTo
from kohort.sim.driver import Scenario


@pytest.mark.parametrize("timeout", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_out_of_bounds_is_refused_and_the_member_id_comes_back(timeout: int) -> None:
    """Scenario 9. Given session timeout 5999, then 26 with the member id echoed."""
    scenario = Scenario()
    request = scenario.join_once("x", member_id="x", session_timeout=timeout)
    assert scenario.replies[request] == refused_join(ErrorCode.INVALID_SESSION_TIMEOUT, "x")
    assert not scenario.exists


@pytest.mark.parametrize("timeout", [6_000, 1_800_000])
def test_both_bounds_of_the_session_timeout_are_allowed(timeout: int) -> None:
    """Scenario 9. Given exactly 6000 or 1800000, then accepted."""
    scenario = Scenario()
    request = scenario.join_once("a", version=3, session_timeout=timeout)
    assert scenario.is_parked(request)
    scenario.sleep(3_000)
    assert scenario.error(request) is ErrorCode.NONE


@pytest.mark.parametrize("member_id", ["", "x"])
def test_an_empty_group_id_is_refused(member_id: str) -> None:
    """Scenario 10. Given empty group id, then 24 with the member id echoed."""
    scenario = Scenario()
    request = scenario.join_once("x", group="", member_id=member_id)
    assert scenario.replies[request] == refused_join(ErrorCode.INVALID_GROUP_ID, member_id)
    assert scenario.shard.group(GroupId("")) is None


@pytest.mark.parametrize("version", [3, 4, 9])
@pytest.mark.parametrize("instance", [None, "i1"])
def test_an_unknown_member_id_makes_no_group(version: int, instance: str | None) -> None:
    """Scenario 11. Given unknown group and member id ``x``, then 25 and no group is created."""
    scenario = Scenario()
    request = scenario.join_once("x", member_id="x", version=version, instance=instance)
    assert scenario.replies[request] == refused_join(ErrorCode.UNKNOWN_MEMBER_ID, "x")
    assert not scenario.exists
    assert not scenario.events
    assert not scenario.log


@pytest.mark.parametrize(
    ("absence", "error", "echoed"),
    [
        (Absence.LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ""),
        (Absence.NOT_OWNED, ErrorCode.NOT_COORDINATOR, ""),
        (Absence.STOPPED, ErrorCode.COORDINATOR_NOT_AVAILABLE, "x"),
    ],
)
def test_a_partition_that_is_not_served_here_says_so(absence: Absence, error: ErrorCode, echoed: str) -> None:
    """Scenario 12. Given the partition is loading, then 14; given it is not owned, then 16."""
    request = Join(
        reply_to=ReplyTo(1),
        group_id=GroupId("g"),
        member_id=MemberId("x"),
        protocols=(Protocol("range", b""),),
        session_timeout_ms=10_000,
    )
    assert answer_while(absence, request, GroupSettings()) == refused_join(error, echoed)


def test_an_empty_protocol_list_is_refused_but_the_group_stays() -> None:
    """Scenario 13. Given Empty group and empty protocol list, then 23 and the group still exists as Empty."""
    scenario = emptied("a")
    request = scenario.join_once("b", protocols=[])
    assert scenario.replies[request] == refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert phase_of(scenario) is Phase.EMPTY
    assert not scenario.group.pending


def test_even_a_refused_first_join_leaves_an_empty_group_behind() -> None:
    """Scenario 13. A request that fails with 23 leaves an Empty group behind (classic-groups 3.1)."""
    scenario = Scenario()
    request = scenario.join_once("a", protocols=[])
    assert scenario.replies[request] == refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert state_of(scenario) == "Empty"
    assert scenario.group.generation == 0


@pytest.mark.parametrize("version", [0, 3, 9])
def test_an_empty_protocol_type_is_refused(version: int) -> None:
    """Scenario 14. Given Empty group and protocol type ``""``, then 23."""
    scenario = Scenario()
    request = scenario.join_once("a", protocol_type="", version=version)
    assert scenario.replies[request] == refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert phase_of(scenario) is Phase.EMPTY


@pytest.mark.parametrize("version", [3, 9])
def test_a_joiner_of_another_type_is_refused(version: int) -> None:
    """Scenario 15. Given Stable group of type ``consumer``, when a joiner says ``connect``, then 23."""
    scenario = stable("a", "b")
    request = scenario.join_once("c", protocol_type="connect", version=version)
    assert scenario.replies[request] == refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert phase_of(scenario) is Phase.STABLE
    assert not scenario.group.pending


@pytest.mark.parametrize("version", [3, 9])
def test_a_joiner_without_a_common_protocol_is_refused(version: int) -> None:
    """Scenario 16. Given members listing [range, roundrobin], when a joiner lists [sticky], then 23."""
    scenario = stable("a", "b", protocols=["range", "roundrobin"])
    request = scenario.join_once("c", protocols=["sticky"], version=version)
    assert scenario.replies[request] == refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert phase_of(scenario) is Phase.STABLE
    assert scenario.members == ["a", "b"]


def test_a_protocol_that_only_some_members_list_is_no_common_one() -> None:
    """Scenario 16. One listed name must be listed by *all* members (classic-groups 3.5)."""
    scenario = Scenario()
    scenario.join("a", protocols=["range", "roundrobin"])
    scenario.join("b", protocols=["range", "sticky"])
    scenario.settle()
    refused = scenario.join_once("c", protocols=["roundrobin", "sticky"])
    accepted = scenario.join_once("d", protocols=["sticky", "range"])
    assert scenario.error(refused) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scenario.error(accepted) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_lone_member_cannot_change_to_a_disjoint_list() -> None:
    """Scenario 17. Given a lone Stable member [range], when it rejoins with [roundrobin], then 23."""
    scenario = stable("a", protocols=["range"])
    mine = scenario.id_of("a")
    request = scenario.join_once("a", protocols=["roundrobin"])
    assert scenario.replies[request] == refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, mine)
    assert phase_of(scenario) is Phase.STABLE
    assert [each.name for each in scenario.group.members[mine].protocols] == ["range"]
    assert scenario.heartbeat("a") is ErrorCode.NONE


def test_a_lone_member_changes_its_list_where_it_overlaps() -> None:
    """Scenario 17. It has to leave first, or overlap."""
    scenario = stable("a", protocols=["range"])
    request = scenario.join_once("a", protocols=["roundrobin", "range"])
    assert scenario.replies[request].protocol_name == "roundrobin"
    assert scenario.replies[request].generation == 2


def test_an_empty_group_takes_members_of_any_type() -> None:
    """Scenario 18. Given a group that became Empty with type ``consumer``, when a ``connect`` member joins,
    then accepted and the type changes."""
    scenario = emptied("a")
    assert scenario.group.protocol_type == "consumer"
    request = scenario.join("w", protocol_type="connect", protocols=["sessioned"])
    await_generation(scenario)
    reply = scenario.replies[request]
    assert (reply.error, reply.protocol_type, reply.protocol_name) == (ErrorCode.NONE, "connect", "sessioned")
    assert reply.generation == 3
    assert scenario.group.protocol_type == "connect"


def test_in_version_0_the_session_timeout_is_the_rebalance_timeout() -> None:
    """Scenario 20. Given v0 join with session 10000, then the group's rebalance timeout is 10000."""
    scenario = Scenario()
    request = scenario.join("a", version=0, session_timeout=10_000, rebalance_timeout=REBALANCE)
    sleep_until(scenario, 3_000)
    assert scenario.error(request) is ErrorCode.NONE
    keep_alive(scenario, "a", millis=9_999)  # it never syncs
    assert scenario.members == ["a"]
    scenario.sleep(1)
    assert phase_of(scenario) is Phase.EMPTY


@pytest.mark.parametrize("version", [1, 9])
def test_a_negative_rebalance_timeout_is_taken_and_counts_as_none(version: int) -> None:
    """Scenario 21. Given a negative rebalance timeout, then the join is accepted and the group timeout counts
    as 0 (so the sync timer fires at once)."""
    scenario = Scenario()
    request = scenario.join("a", version=version, rebalance_timeout=-1)
    assert scenario.is_parked(request)
    sleep_until(scenario, 3_000)
    assert scenario.error(request) is ErrorCode.NONE
    assert scenario.replies[request].generation == 1
    assert phase_of(scenario) is Phase.EMPTY
    assert scenario.group.generation == 2
    assert scenario.heartbeat("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_negative_rebalance_timeout_beside_a_positive_one_does_not_count() -> None:
    """Scenario 21. The group's timeout is the longest of its members'."""
    scenario = Scenario()
    scenario.join("a", rebalance_timeout=-1)
    scenario.join("b", rebalance_timeout=20_000)
    await_generation(scenario)
    keep_alive(scenario, "a", "b", millis=19_999)
    assert scenario.members == ["a", "b"]
    scenario.sleep(1)
    assert phase_of(scenario) is Phase.EMPTY
