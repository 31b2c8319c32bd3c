"""The vote on a protocol."""

import pytest

from kohort.groups.classic.state import Group, Member
from kohort.groups.classic.transitions import Phase
from kohort.groups.classic.vote import select_protocol
from kohort.groups.commands import Protocol
from kohort.model.ids import GroupId, MemberId


def group_of(*lists: str) -> Group:
    """A group whose members list these protocols, separated by blanks, by preference."""
    group = Group(group_id=GroupId("g"), phase=Phase.STABLE, protocol_type="consumer")
    for number, names in enumerate(lists):
        member = Member(
            member_id=MemberId(str(number)),
            instance_id=None,
            client_id="",
            client_host="",
            session_timeout_ms=0,
            rebalance_timeout_ms=0,
            protocols=tuple(Protocol(name, b"") for name in names.split()),
        )
        group.members[member.member_id] = member
        for name, _ in member.protocols:
            group.offers[name] = group.offers.get(name, 0) + 1
    return group


@pytest.mark.parametrize(
    ("lists", "winner"),
    [
        (("range roundrobin", "roundrobin range", "roundrobin range"), "roundrobin"),
        (("range roundrobin", "roundrobin foo"), "roundrobin"),
        (("range roundrobin", "roundrobin range"), "range"),
        (("range sticky", "sticky range"), "sticky"),
        (("cooperative-sticky range", "range cooperative-sticky"), "range"),
        (("stream sticky", "sticky stream"), "stream"),
        (("sessioned compatible", "compatible sessioned"), "compatible"),
        (("foo x y", "x foo y", "y bar foo"), "foo"),
    ],
)
def test_most_votes_win_and_ties_go_as_in_kafka(lists: tuple[str, ...], winner: str) -> None:
    assert select_protocol(group_of(*lists)) == winner


def test_names_in_one_bucket_tie_by_who_voted_first() -> None:
    assert select_protocol(group_of("default compatible", "compatible default")) == "default"
    assert select_protocol(group_of("compatible default", "default compatible")) == "compatible"


@pytest.mark.parametrize(("count", "winner"), [(12, "p12"), (13, "p1")])
def test_with_more_than_twelve_names_the_hash_map_has_grown(count: int, winner: str) -> None:
    names = [f"p{number}" for number in range(1, count + 1)]
    lists = [" ".join((name, *(other for other in names if other != name))) for name in names]
    assert select_protocol(group_of(*lists)) == winner  # "p12" is in bucket 0 of 16, but 16 of 32
