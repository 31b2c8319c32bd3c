"""Groups and members as values."""

from kohort.groups.classic.state import UNKNOWN_TIME, Group, Member
from kohort.groups.commands import Protocol
from kohort.model.ids import GroupId, InstanceId, MemberId
from kohort.sim.driver import Scenario


def member(**changes: object) -> Member:
    fields: dict[str, object] = {
        "member_id": MemberId("m"),
        "instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 1,
        "rebalance_timeout_ms": 2,
        "protocols": (Protocol("x", b"1"), Protocol("y", b"2")),
    }
    return Member(**{**fields, **changes})  # type: ignore[arg-type]  # the fields are those of Member


def test_a_member_has_metadata_for_what_it_offers() -> None:
    assert member().metadata_for("y") == b"2"
    assert member().metadata_for("z") == b""
    assert member().metadata_for(None) == b""


def test_a_member_is_static_if_it_has_an_instance_id() -> None:
    assert not member().is_static
    assert member(instance_id=InstanceId("i")).is_static


def test_a_new_group_is_empty_and_has_no_timeout() -> None:
    group = Group(group_id=GroupId("g"))
    assert group.rebalance_timeout_ms == 0
    assert group.everyone_has_joined
    assert not group.is_initial
    assert group.image().state_timestamp == UNKNOWN_TIME


def test_the_longest_rebalance_timeout_counts_and_none_is_below_zero() -> None:
    group = Group(group_id=GroupId("g"))
    group.members[MemberId("a")] = member(rebalance_timeout_ms=-7)
    assert group.rebalance_timeout_ms == 0
    group.members[MemberId("b")] = member(rebalance_timeout_ms=9)
    assert group.rebalance_timeout_ms == 9


def test_its_image_has_the_selected_protocol_only() -> None:
    scenario = Scenario()
    scenario.join("a", protocols=[("x", b"1"), ("y", b"2")])
    scenario.settle()
    image = scenario.group.image()
    assert image.protocol == "x"
    assert image.members[0].subscription == b"1"
    assert image.members[0].assignment == b"for-a"
    assert scenario.group.image({}).members[0].assignment == b""
