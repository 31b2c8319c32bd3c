"""List, describe, delete."""

import pytest

from kohort.groups.events import GroupTombstoned
from kohort.groups.replies import DeletedGroup, DescribedMember, DescribeReply, GroupListing
from kohort.groups.settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, InstanceId
from kohort.sim.driver import Scenario
from kohort.sim.members import subscription

NONE = ErrorCode.NONE


def mixed() -> Scenario:
    """Group "g" is stable, "simple" has an offset, "new" prepares."""
    scenario = Scenario.stable(a=60_000)
    scenario.commit(None, {("t", 0): 1}, group="simple")
    scenario.join("x", group="new")
    return scenario


def listed(scenario: Scenario, **filters: list[str]) -> list[str]:
    reply = scenario.replies[scenario.admin.list_groups(**filters)]
    return [group.group_id for group in reply.groups]


def test_all_groups_are_listed_with_type_and_state() -> None:
    scenario = mixed()
    assert scenario.replies[scenario.admin.list_groups()].groups == (
        GroupListing(GroupId("g"), "consumer", "Stable", "classic"),
        GroupListing(GroupId("simple"), "", "Empty", "classic"),
        GroupListing(GroupId("new"), "consumer", "PreparingRebalance", "classic"),
    )


@pytest.mark.parametrize(
    ("states", "types", "names"),
    [
        ([" sTable "], [], ["g"]),
        (["stable", "EMPTY"], [], ["g", "simple"]),
        (["foo"], [], []),
        ([], ["CLASSIC"], ["g", "simple", "new"]),
        ([], ["consumer"], []),
        (["empty"], ["classic", "share"], ["simple"]),
    ],
)
def test_filters_restrict_the_list(states: list[str], types: list[str], names: list[str]) -> None:
    assert listed(mixed(), states=states, types=types) == names


def test_a_stable_group_is_described_in_full() -> None:
    scenario = Scenario()
    scenario.join("a", instance="i", client_host="/10.0.0.5")
    scenario.settle()
    assert scenario.replies[scenario.admin.describe()] == DescribeReply(
        group_id=GroupId("g"),
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        members=(
            DescribedMember(
                scenario.id_of("a"), InstanceId("i"), "a", "/10.0.0.5", subscription("t"), b"for-a"
            ),
        ),
    )


def test_in_other_phases_protocol_and_metadata_are_left_out_but_assignments_are_shown() -> None:
    scenario = Scenario.stable(a=10_000, b=10_000)
    scenario.join("b", changed=True)
    reply = scenario.replies[scenario.admin.describe()]
    assert (reply.state, reply.protocol) == ("PreparingRebalance", "")
    assert [(m.metadata, m.assignment) for m in reply.members] == [(b"", b"for-a"), (b"", b"for-b")]


def test_a_simple_group_has_no_protocol_type() -> None:
    scenario = mixed()
    reply = scenario.replies[scenario.admin.describe("simple")]
    assert (reply.state, reply.protocol_type, reply.protocol, reply.members) == ("Empty", "", "", ())


def test_an_unknown_group_is_dead_and_from_version_6_an_error() -> None:
    scenario = Scenario()
    old, new = scenario.admin.describe("x", version=5), scenario.admin.describe("x", version=6)
    assert scenario.replies[old] == DescribeReply(group_id=GroupId("x"), state="Dead")
    assert scenario.replies[new].error is ErrorCode.GROUP_ID_NOT_FOUND
    assert scenario.replies[new].error_message == "Group x not found."


def test_only_empty_groups_are_deleted_each_with_its_own_result() -> None:
    scenario = mixed()
    request = scenario.admin.delete_groups("g", "simple", "simple", "nowhere", "new")
    assert scenario.replies[request].groups == (
        DeletedGroup(GroupId("g"), ErrorCode.NON_EMPTY_GROUP),
        DeletedGroup(GroupId("simple"), NONE),
        DeletedGroup(GroupId("nowhere"), ErrorCode.GROUP_ID_NOT_FOUND),
        DeletedGroup(GroupId("new"), ErrorCode.NON_EMPTY_GROUP),
    )
    assert scenario.committed(group="simple") == -1
    assert listed(scenario) == ["g", "new"]
    assert [record.value for record in scenario.log[-2:]] == [None, None]  # the offset's, then the group's
    assert scenario.why(GroupTombstoned) == ["an administrator deleted the group"]


def test_a_group_without_offsets_is_only_one_tombstone() -> None:
    scenario = Scenario()
    scenario.join_once("a")
    scenario.admin.delete_groups("g")
    assert [record.value for record in scenario.log] == [None]
    assert scenario.shard.next_deadline() is not None  # the sweep is left, the id's timer is not
    assert len(scenario.shard.state.heartbeats) == 0


def test_a_dead_group_cannot_be_deleted() -> None:
    scenario = Scenario.stable(a=10_000)
    scenario.unload()
    assert scenario.replies[scenario.admin.delete_groups("g")].groups[0].error is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_answer_waits_for_the_tombstones() -> None:
    scenario = mixed()
    scenario.hold_appends()
    request = scenario.admin.delete_groups("simple")
    described = scenario.admin.describe("simple")
    assert scenario.is_parked(request)
    assert scenario.is_parked(described)  # it has seen what may yet not happen
    scenario.release_appends()
    assert scenario.replies[described].error is ErrorCode.GROUP_ID_NOT_FOUND
    assert scenario.committed(group="simple") == -1


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
    assert listed(scenario) == ["large"]
    assert scenario.committed("t", 29, group="large") == 1


def test_a_commit_that_is_on_its_way_is_deleted_with_its_group() -> None:
    scenario = Scenario()
    scenario.hold_appends()
    scenario.commit(None, {("t", 0): 5})
    scenario.admin.delete_groups("g")
    scenario.release_appends()
    scenario.restart()
    assert not scenario.exists
    assert scenario.committed() == -1
