"""Describing, listing and deleting groups; who may commit (classic-groups 8, 12)."""

import pytest
from tests.scenario.groups.story import (
    ON_T,
    commit_error,
    commit_errors,
    completing,
    emptied,
    group_records,
    offset_records,
    phase_of,
    preparing,
    stable,
    state_of,
)

from kohort.groups.classic.transitions import Phase
from kohort.groups.commands import SweepOffsets
from kohort.groups.replies import (
    DeletedGroup,
    DeletedOffset,
    DeleteOffsetsReply,
    DescribedMember,
    DescribeReply,
)
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, Partition, TopicName
from kohort.sim.driver import Scenario

NONE = ErrorCode.NONE
RETENTION = 3_600_000
SWEPT_BY_HAND = GroupSettings(
    offsets_retention_ms=RETENTION, offsets_retention_check_interval_ms=1_000_000_000_000
)


def deleted(topic: str, error: ErrorCode, partition: int = 0) -> DeletedOffset:
    return DeletedOffset(TopicName(topic), Partition(partition), error)


@pytest.mark.parametrize("version", [0, 5, 6])
def test_a_stable_group_is_described_in_full(version: int) -> None:
    """Scenario 119. Given Stable, DescribeGroups returns protocol, metadata and assignments."""
    scenario = stable("a", "b")
    request = scenario.admin.describe(version=version)
    assert scenario.replies[request] == DescribeReply(
        group_id=GroupId("g"),
        error=NONE,
        error_message=None,
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        members=tuple(
            DescribedMember(scenario.id_of(name), None, name, "/127.0.0.1", ON_T, f"for-{name}".encode())
            for name in scenario.members
        ),
    )


def test_a_group_that_rebalances_is_described_with_what_is_held() -> None:
    """Scenario 119. In PreparingRebalance protocol is ``""``, metadata empty, assignments as held."""
    scenario = stable("a", "b")
    scenario.join("a")
    scenario.join_once("c")  # pending ids are not listed
    reply = scenario.replies[scenario.admin.describe()]
    assert (reply.error, reply.state) == (NONE, "PreparingRebalance")
    assert (reply.protocol_type, reply.protocol) == ("consumer", "")
    assert {(each.member_id, each.metadata, each.assignment) for each in reply.members} == {
        (scenario.id_of("a"), b"", b"for-a"),
        (scenario.id_of("b"), b"", b"for-b"),
    }


def test_a_group_that_completes_its_rebalance_shows_no_protocol_yet() -> None:
    """Scenario 119. Any other state than Stable: protocol ``""``, metadata empty (classic-groups 8.2)."""
    scenario = completing("a", "b")
    reply = scenario.replies[scenario.admin.describe()]
    assert (reply.state, reply.protocol) == ("CompletingRebalance", "")
    assert {(each.metadata, each.assignment) for each in reply.members} == {(b"", b"")}


def test_an_empty_group_is_described_by_its_type() -> None:
    """Scenario 119. Empty: no members, no protocol, the type it had."""
    scenario = emptied("a")
    reply = scenario.replies[scenario.admin.describe()]
    assert (reply.error, reply.state, reply.protocol_type, reply.protocol) == (NONE, "Empty", "consumer", "")
    assert reply.members == ()


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_group_that_is_not_there_is_dead(version: int) -> None:
    """Scenario 119. Unknown group is ``Dead`` without an error."""
    scenario = Scenario()
    for group in ("g", ""):
        reply = scenario.replies[scenario.admin.describe(group, version=version)]
        assert (reply.error, reply.state, reply.members) == (NONE, "Dead", ())
        assert (reply.protocol_type, reply.protocol) == ("", "")


def test_a_group_that_is_not_there_is_not_found_by_newer_clients() -> None:
    """Scenario 119. v6: 69 and a message."""
    scenario = Scenario()
    reply = scenario.replies[scenario.admin.describe(version=6)]
    assert (reply.error, reply.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert reply.error_message == "Group g not found."
    assert not scenario.exists


def three_groups() -> Scenario:
    """ "s" is Stable, "e" is Empty, "p" is simple: offsets and nothing else."""
    scenario = Scenario()
    for group in ("s", "e"):
        scenario.join("a", group=group)
    scenario.sleep(3_000)
    for group in ("s", "e"):
        scenario.sync_all(group)
    scenario.group_id = GroupId("e")
    scenario.leave("a")
    scenario.group_id = GroupId("s")
    scenario.commit(None, {("t", 0): 1}, group="p")
    return scenario


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), {"s", "e", "p"}),
        ((" sTaBLE ",), (), {"s"}),
        (("Empty",), (), {"e", "p"}),
        (("empty", "STABLE"), (), {"s", "e", "p"}),
        (("foo",), (), set()),
        (("foo", "stable"), (), {"s"}),
        ((), ("CLASSIC",), {"s", "e", "p"}),
        ((), ("consumer",), set()),
        (("stable",), ("classic",), {"s"}),
        (("stable",), ("share",), set()),
    ],
)
def test_groups_are_listed_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], found: set[str]
) -> None:
    """Scenario 120. Given states filter `` stable `` in mixed case, then only Stable groups; given ``foo``,
    none; given types filter ``CLASSIC``, all classic groups."""
    scenario = three_groups()
    reply = scenario.replies[scenario.admin.list_groups(states, types)]
    assert reply.error is NONE
    assert {each.group_id for each in reply.groups} == found


def test_a_listed_group_says_what_it_is() -> None:
    """Scenario 120. Id, protocol type (``""`` for simple groups), state, type ``classic``
    (classic-groups 8.3)."""
    scenario = three_groups()
    reply = scenario.replies[scenario.admin.list_groups()]
    assert set(reply.groups) == {
        ("s", "consumer", "Stable", "classic"),
        ("e", "consumer", "Empty", "classic"),
        ("p", "", "Empty", "classic"),
    }


def test_only_an_empty_group_can_be_deleted() -> None:
    """Scenario 121. Given DeleteGroups of Stable, Empty and unknown groups in one call, then 68, 0, 69, and
    the Empty one is tombstoned."""
    scenario = three_groups()
    scenario.commit(None, {("t", 0): 1, ("t", 1): 2}, group="e")
    scenario.hold_appends()
    request = scenario.admin.delete_groups("s", "e", "x", "e")
    assert scenario.is_parked(request)
    scenario.release_appends()
    assert scenario.replies[request].groups == (
        (GroupId("s"), ErrorCode.NON_EMPTY_GROUP),
        (GroupId("e"), NONE),
        (GroupId("x"), ErrorCode.GROUP_ID_NOT_FOUND),
    )
    assert group_records(scenario, "e")[-1] is None
    assert offset_records(scenario, "e")[-2:] == [("t", 0, None), ("t", 1, None)]
    assert scenario.log[-1].value is None
    assert group_records(scenario, "e")[-1] is None
    assert state_of(scenario, "e") == ""
    scenario.restart()
    assert state_of(scenario, "e") == ""
    assert scenario.committed("t", 0, group="e") == -1


@pytest.mark.parametrize("group", ["preparing", "completing"])
def test_a_group_that_rebalances_cannot_be_deleted(group: str) -> None:
    """Scenario 121. P and C: 68 (classic-groups 8.3)."""
    scenario = preparing("a", "b") if group == "preparing" else completing("a", "b")
    request = scenario.admin.delete_groups("g")
    assert scenario.replies[request].groups == ((GroupId("g"), ErrorCode.NON_EMPTY_GROUP),)


def test_a_handed_out_id_does_not_protect_an_empty_group() -> None:
    """Scenario 121. Pending ids do not protect an Empty group; its id is then unknown
    (classic-groups 8.3)."""
    scenario = Scenario()
    scenario.join_once("a")
    request = scenario.admin.delete_groups("g")
    assert scenario.replies[request].groups == ((GroupId("g"), NONE),)
    assert group_records(scenario) == [None]  # also for generation 0 (classic-groups 10 #13)
    assert scenario.error(scenario.join_once("a")) is ErrorCode.UNKNOWN_MEMBER_ID
    scenario.sleep(60_000)
    assert not scenario.exists


def test_a_deletion_that_cannot_be_stored_did_not_happen() -> None:
    """Scenario 121. The append's error, mapped, for every group of the request (classic-groups 7.5)."""
    scenario = emptied("a")
    scenario.commit(None, {("t", 0): 5})
    scenario.fail_next_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    request = scenario.admin.delete_groups("g", "x")
    assert scenario.replies[request].groups == (
        (GroupId("g"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (GroupId("x"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    )
    assert state_of(scenario) == "Empty"
    assert scenario.group.generation == 2
    assert scenario.committed("t", 0) == 5


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    """Scenario 122. Given OffsetDelete on a Stable consumer group, then subscribed topics get 86 and others
    are deleted."""
    scenario = stable("a", "b", topics=["t"])
    scenario.commit("a", {("t", 0): 1, ("t", 1): 1, ("u", 0): 2})
    request = scenario.admin.delete_offsets(("t", 0), ("u", 0), ("t", 1), ("v", 0))
    assert set(scenario.replies[request].rows) == {
        deleted("t", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0),
        deleted("t", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 1),
        deleted("u", NONE),
        deleted("v", NONE),  # also when there was no offset
    }
    assert scenario.committed("t", 0) == 1
    assert scenario.committed("u", 0) == -1
    assert offset_records(scenario)[-1] == ("u", 0, None)
    assert [topic for topic, _, value in offset_records(scenario) if value is None] == ["u"]


def test_offsets_of_a_group_of_another_type_cannot_be_deleted_while_it_has_members() -> None:
    """Scenario 122. On a Stable ``connect`` group 68."""
    scenario = stable("a", protocol_type="connect")
    request = scenario.admin.delete_offsets(("t", 0))
    assert (scenario.error(request), scenario.replies[request].rows) == (ErrorCode.NON_EMPTY_GROUP, ())


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_all_offsets_of_an_empty_group_can_be_deleted(protocol_type: str) -> None:
    """Scenario 122. On Empty all deleted."""
    scenario = emptied("a", protocol_type=protocol_type)
    scenario.commit(None, {("t", 0): 1, ("u", 0): 2})
    request = scenario.admin.delete_offsets(("t", 0), ("u", 0))
    assert set(scenario.replies[request].rows) == {deleted("t", NONE), deleted("u", NONE)}
    assert (scenario.committed("t", 0), scenario.committed("u", 0)) == (-1, -1)


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x05\x00\x01t", b"\xff" * 20])
def test_a_subscription_nobody_can_read_counts_as_everything(metadata: bytes) -> None:
    """Scenario 123. Given unparsable subscription bytes, then OffsetDelete answers 86 for every topic."""
    scenario = stable("a", protocols=[("range", metadata)])
    scenario.commit("a", {("t", 0): 1})
    request = scenario.admin.delete_offsets(("t", 0), ("other", 0))
    assert [row.error for row in scenario.replies[request].rows] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * 2
    assert scenario.committed("t", 0) == 1


@pytest.mark.parametrize("member_id", ["", "whoever"])
@pytest.mark.parametrize("instance", [None, "i1"])
def test_an_empty_group_takes_commits_from_anyone_without_a_generation(
    member_id: str, instance: str | None
) -> None:
    """Scenario 124. Given commit with generation -1 to an Empty group with any member id, then accepted."""
    scenario = emptied("a")
    request = scenario.commit(None, {("t", 0): 3}, generation=-1, member_id=member_id, instance=instance)
    assert commit_error(scenario, request) is NONE
    assert scenario.committed("t", 0) == 3


@pytest.mark.parametrize("group", ["preparing", "completing", "stable"])
def test_a_group_with_members_takes_no_commits_from_nobody(group: str) -> None:
    """Scenario 124. To a Stable group with no identity, 25."""
    make = {"preparing": preparing, "completing": completing, "stable": stable}[group]
    scenario = make("a", "b")
    request = scenario.commit(None, {("t", 0): 3, ("t", 1): 3})
    assert commit_errors(scenario, request) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert scenario.committed("t", 0) == -1


def test_commits_wait_for_the_assignment_but_not_for_the_join_phase() -> None:
    """Scenario 125. Given commit with the right generation in CompletingRebalance, then 27; in
    PreparingRebalance, accepted with the old generation."""
    scenario = completing("a", "b")
    request = scenario.commit("a", {("t", 0): 3})
    assert commit_error(scenario, request) is ErrorCode.REBALANCE_IN_PROGRESS
    scenario.sync_all()
    scenario.join("a")
    assert phase_of(scenario) is Phase.PREPARING_REBALANCE
    request = scenario.commit("b", {("t", 0): 4}, generation=1)
    assert commit_error(scenario, request) is NONE
    assert scenario.committed("t", 0) == 4


def test_a_commit_with_a_generation_finds_no_group() -> None:
    """Scenario 126. Given commit with generation 3 to an unknown group, then 22 at v8 and 69 at v9."""
    scenario = Scenario()
    for version, error in ((2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION)):
        request = scenario.commit(None, {("t", 0): 1}, generation=3, version=version)
        assert commit_error(scenario, request) is error
    for version in (9, 10):
        request = scenario.commit(None, {("t", 0): 1}, generation=3, version=version)
        assert commit_error(scenario, request) is ErrorCode.GROUP_ID_NOT_FOUND
    assert not scenario.exists


def test_offsets_of_an_emptied_group_expire_together() -> None:
    """Scenario 127. Given an Empty group with a protocol type whose retention passed since it became Empty,
    then all offsets expire, even one committed a minute ago with generation -1."""
    scenario = emptied("a", settings=SWEPT_BY_HAND)
    scenario.sleep(RETENTION - 60_000)
    scenario.commit(None, {("t", 0): 1})
    scenario.sleep(59_999)
    scenario.order(SweepOffsets())
    assert scenario.committed("t", 0) == 1
    scenario.sleep(1)
    scenario.order(SweepOffsets())
    assert scenario.committed("t", 0) == -1
    assert not scenario.exists


def test_a_fresh_offset_of_a_simple_group_stays() -> None:
    """Scenario 127. A simple group keeps that fresh offset."""
    scenario = Scenario(SWEPT_BY_HAND)
    scenario.commit(None, {("t", 0): 1})
    scenario.sleep(RETENTION - 60_000)
    scenario.commit(None, {("t", 1): 2})
    scenario.sleep(60_000)
    scenario.order(SweepOffsets())
    assert (scenario.committed("t", 0), scenario.committed("t", 1)) == (-1, 2)
    assert state_of(scenario) == "Empty"


def test_a_deletion_that_is_too_large_for_the_log_is_refused_for_the_groups_that_do_not_fit() -> None:
    scenario = Scenario(GroupSettings(max_batch_bytes=1_000))
    scenario.commit(None, {("t", 0): 1}, group="small")
    for number in range(60):
        scenario.commit(None, {("t", number): 1}, group="large")
    request = scenario.admin.delete_groups("large", "small")
    assert scenario.replies[request].groups == (
        DeletedGroup(GroupId("large"), ErrorCode.UNKNOWN_SERVER_ERROR),
        DeletedGroup(GroupId("small"), NONE),
    )
    assert (state_of(scenario, "large"), state_of(scenario, "small")) == ("Empty", "")
    assert scenario.committed("t", 29, group="large") == 1


def test_in_an_empty_group_everything_goes_with_one_tombstone_each() -> None:
    scenario = emptied("a")
    scenario.commit(None, {("t", 0): 1})
    written = len(scenario.log)
    request = scenario.admin.delete_offsets(("t", 0), ("t", 0), ("old", 0))
    assert [row.error for row in scenario.replies[request].rows] == [NONE, NONE, NONE]
    assert [record.value for record in scenario.log[written:]] == [None]
    assert scenario.committed() == -1
    assert scenario.exists


def test_offsets_whose_deletion_the_log_refuses_stay() -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1})
    scenario.fail_next_append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    request = scenario.admin.delete_offsets(("t", 0))
    assert scenario.replies[request] == DeleteOffsetsReply(error=ErrorCode.NOT_COORDINATOR)
    assert scenario.committed() == 1


def test_offsets_whose_deletion_is_too_large_for_the_log_stay() -> None:
    scenario = Scenario(GroupSettings(max_batch_bytes=1_000))
    keys = [("t", number) for number in range(60)]
    for key in keys:
        scenario.commit(None, {key: 1})
    request = scenario.admin.delete_offsets(*keys)
    assert scenario.replies[request] == DeleteOffsetsReply(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert scenario.committed("t", 29) == 1
