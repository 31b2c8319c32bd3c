"""ListGroups, DescribeGroups and DeleteGroups on the wire."""

import pytest
from tests.broker.asking import create
from tests.broker.grouping import GROUP, alone, commit_request, find, join_request, subscription
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.list_groups import ListGroupsRequest

MIN = -(2**31)


@pytest.fixture
def raw(raw: Raw) -> Raw:
    """With a stable group ``g`` and a simple one, ``offsets-only``."""
    create(raw, "t")
    alone(raw)
    raw.send(commit_request((0, 5), group="offsets-only"), 8)
    return raw


# ListGroups


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed_with_what_the_version_tells(raw: Raw, version: int) -> None:
    reply = raw.send(ListGroupsRequest(), version)
    assert reply.error_code == 0
    groups = {group.group_id: group for group in reply.groups}
    assert {name: group.protocol_type for name, group in groups.items()} == {
        GROUP: "consumer",
        "offsets-only": "",
    }
    if version >= 4:
        assert (groups[GROUP].group_state, groups["offsets-only"].group_state) == ("Stable", "Empty")
    if version >= 5:
        assert {group.group_type for group in groups.values()} == {"classic"}


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["Stable"], [], {GROUP}),
        (["sTABLE", "empty"], [], {GROUP, "offsets-only"}),
        (["PreparingRebalance"], [], set()),
        (["nonsense"], [], set()),
        ([], ["classic"], {GROUP, "offsets-only"}),
        ([], ["Classic", "consumer"], {GROUP, "offsets-only"}),
        ([], ["consumer"], set()),
        (["Stable"], ["classic"], {GROUP}),
        (["Stable"], ["consumer"], set()),
        ([], ["nonsense"], set()),
    ],
)
def test_filters_combine_and_do_not_mind_case(
    raw: Raw, states: list[str], types: list[str], found: set[str]
) -> None:
    reply = raw.send(ListGroupsRequest(states_filter=states, types_filter=types), 5)
    assert {group.group_id for group in reply.groups} == found


# DescribeGroups


def describe(raw: Raw, *groups: str, version: int = 5, operations: bool = False) -> list[Reply]:
    request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations)
    described: list[Reply] = raw.send(request, version).groups
    return described


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described_with_its_members(raw: Raw, version: int) -> None:
    (group,) = describe(raw, GROUP, version=version)
    assert (group.error_code, group.group_id, group.group_state) == (0, GROUP, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("raw", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"everything")
    assert member.group_instance_id is None
    assert group.authorized_operations == MIN


def test_a_group_that_rebalances_hides_protocol_and_metadata_but_not_assignments(raw: Raw) -> None:
    raw.send(join_request(group="forming"), 3)
    (group,) = describe(raw, "forming")
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_metadata == b""


@pytest.mark.parametrize("version", range(6))
def test_an_unknown_group_is_dead_and_no_error_before_v6(raw: Raw, version: int) -> None:
    (group,) = describe(raw, "nobody", version=version)
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Dead", "")
    assert group.members == []


def test_an_unknown_group_is_not_found_in_v6(raw: Raw) -> None:
    (group,) = describe(raw, "nobody", version=6)
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert group.error_message


def test_operations_are_told_when_asked_for_and_there_is_no_error(raw: Raw) -> None:
    known, unknown = describe(raw, GROUP, "nobody", version=6, operations=True)
    assert (known.authorized_operations, unknown.authorized_operations) == (3400, MIN)


def test_every_group_asked_for_is_described_once(raw: Raw) -> None:
    found = describe(raw, "offsets-only", "nobody", GROUP, GROUP)
    assert [group.group_id for group in found] == ["offsets-only", "nobody", GROUP]


# DeleteGroups


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_one_by_one(raw: Raw, version: int) -> None:
    names = ["offsets-only", "nobody", GROUP, "offsets-only"]
    results = raw.send(DeleteGroupsRequest(groups_names=names), version).results
    assert [(result.group_id, result.error_code) for result in results] == [
        ("offsets-only", 0),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
    ]
    listed = raw.send(ListGroupsRequest(), 5).groups
    assert [group.group_id for group in listed] == [GROUP]


def test_no_groups_make_empty_replies(raw: Raw) -> None:
    assert raw.send(DeleteGroupsRequest(groups_names=[]), 2).results == []
    assert describe(raw) == []


def test_administration_without_an_offsets_topic() -> None:
    with Broker() as broker, Raw(broker.bootstrap) as fresh:
        assert fresh.send(ListGroupsRequest(), 5).groups == []
        assert find(fresh).error_code == 0
