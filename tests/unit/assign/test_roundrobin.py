"""Partitions dealt like cards."""

from tests.unit.assign.notation import assigned, group, static, topics

from kohort.assign.protocol import Assignment
from kohort.assign.roundrobin import RoundRobinAssignor
from kohort.model.ids import Generation


def test_e6_partitions_are_dealt_in_turn() -> None:
    members = group({"C0": "t0 t1", "C1": "t0 t1"})
    expected = {"C0": "t0-0 t0-2 t1-1", "C1": "t0-1 t1-0 t1-2"}
    assert assigned(RoundRobinAssignor(), topics("t0:3 t1:3"), members) == expected


def test_e7_members_that_did_not_ask_are_skipped() -> None:
    members = group({"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"})
    expected = {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"}
    assert assigned(RoundRobinAssignor(), topics("t0:1 t1:2 t2:3"), members) == expected


def test_e8_mixed_subscriptions_can_leave_a_member_empty() -> None:
    wishes = {"c1": "t1 t2 t3 t4 t5", "c2": "t1 t3 t5", "c3": "t1 t3 t5", "c4": "t1 t2 t3 t4 t5"}
    assert assigned(RoundRobinAssignor(), topics("t1:2 t2:1 t3:2 t4:1 t5:2"), group(wishes)) == {
        "c1": "t1-0 t3-0 t5-0",
        "c2": "t1-1 t3-1 t5-1",
        "c3": "",
        "c4": "t2-0 t4-0",
    }


def test_static_members_come_first() -> None:
    members = static(group({"a": "t", "z": "t"}), z="i1")
    assert assigned(RoundRobinAssignor(), topics("t:3"), members) == {"z": "t-0 t-2", "a": "t-1"}


def test_unknown_topics_are_skipped() -> None:
    assert assigned(RoundRobinAssignor(), topics("t:1"), group({"a": "gone t", "b": ""})) == {
        "a": "t-0",
        "b": "",
    }
    assert assigned(RoundRobinAssignor(), topics("t:1"), {}) == {}


def test_roundrobin_tells_and_remembers_nothing() -> None:
    assignor = RoundRobinAssignor()
    assignor.on_assignment(Assignment(), Generation(1))
    assert assignor.subscription_user_data([]) is None
