"""Groups found by name, or missed with a suggestion."""

import asyncio
from collections.abc import Collection
from typing import cast

import pytest

from kohort.cli.groups.lookup import GroupHasMembersError, UnknownGroupError, find_group, list_with_lag
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import CommittedOffset, GroupInfo, ListedGroup, MemberInfo
from kohort.client.errors import BrokerError
from kohort.client.metadata import Node
from kohort.model.errors import ErrorCode
from kohort.model.ids import GroupId, NodeId
from kohort.model.topics import TopicPartition


def member(name: str) -> MemberInfo:
    return MemberInfo(member_id=name, instance_id=None, client_id="c", client_host="/10.0.0.1", assignment=())


def group(name: str, *members: MemberInfo, state: str = "Stable") -> GroupInfo:
    return GroupInfo(
        group_id=GroupId(name),
        type="classic",
        state=state,
        protocol_type="consumer",
        assignor="",
        coordinator=Node(NodeId(1), "host", 9092),
        members=members,
    )


class Groups:
    """As much of an AsyncAdmin as looking up groups takes."""

    def __init__(self, **described: GroupInfo | BrokerError) -> None:
        self._described = described

    async def describe_groups(self, group_ids: Collection[str]) -> dict[GroupId, GroupInfo | BrokerError]:
        missing = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, "describe it")
        return {GroupId(name): self._described.get(name, missing) for name in group_ids}

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        found = self._described[group_id]
        if isinstance(found, BrokerError):
            raise found
        return {}

    async def list_groups(self, *, states: Collection[str] = ()) -> list[ListedGroup]:
        return [
            ListedGroup(GroupId(name), "consumer", "Stable", "classic", NodeId(1)) for name in self._described
        ]

    def admin(self) -> AsyncAdmin:
        return cast(AsyncAdmin, self)


def test_a_part_of_a_name_is_enough_to_be_reminded_of_it() -> None:
    with pytest.raises(UnknownGroupError, match="did you mean 'EU-billing-service-2'"):
        asyncio.run(find_group(Groups(**{"EU-billing-service-2": group("x")}).admin(), "billing"))


def test_where_nothing_is_called_alike_the_list_is_named() -> None:
    with pytest.raises(UnknownGroupError, match="`kohort groups list` shows the groups"):
        asyncio.run(find_group(Groups(zoo=group("zoo")).admin(), "billing"))


def test_a_group_an_old_broker_calls_dead_is_not_there() -> None:
    with pytest.raises(UnknownGroupError):
        asyncio.run(find_group(Groups(billing=group("billing", state="Dead")).admin(), "billing"))


def test_other_refusals_are_passed_on() -> None:
    refused = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "describe it")
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        asyncio.run(find_group(Groups(billing=refused).admin(), "billing"))


def test_a_listed_group_that_is_gone_when_asked_has_no_number_of_members() -> None:
    gone = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, "describe it")
    groups = Groups(a=group("a", member("m"), member("n")), b=gone)
    listed = asyncio.run(list_with_lag(groups.admin(), ()))
    assert [(one.group.group_id, one.members, one.lag) for one in listed] == [
        ("a", 2, None),
        ("b", None, None),
    ]


def test_a_group_in_use_says_who_uses_it_and_what_to_do() -> None:
    error = GroupHasMembersError(group("g", *map(member, "abcde")), "delete it")
    assert str(error) == (
        "cannot delete it: group 'g' has 5 members: a at 10.0.0.1, b at 10.0.0.1, c at 10.0.0.1 "
        "and 2 more (stop its members first, or wait until their sessions expire)"
    )
    assert "has 1 member: a at" in str(GroupHasMembersError(group("g", member("a")), "delete it"))


def test_a_group_that_is_not_empty_without_members_says_its_state() -> None:
    error = GroupHasMembersError(group("g", state="PreparingRebalance"), "delete it")
    assert "group 'g' is in state PreparingRebalance" in str(error)
