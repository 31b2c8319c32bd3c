"""Stretches of every topic, and racks where they cost nothing."""

from tests.unit.assign.notation import assigned, group, static, topics

from kohort.assign.protocol import Assignment
from kohort.assign.range import RangeAssignor
from kohort.model.ids import Generation

BOTH = {"C0": "t0 t1", "C1": "t0 t1"}


def test_e1_each_topic_is_cut_in_two() -> None:
    expected = {"C0": "t0-0 t0-1 t1-0 t1-1", "C1": "t0-2 t1-2"}
    assert assigned(RangeAssignor(), topics("t0:3 t1:3"), group(BOTH)) == expected


def test_e2_only_subscribers_share_a_topic() -> None:
    members = group({"c1": "t1", "c2": "t1 t2", "c3": "t1"})
    expected = {"c1": "t1-0", "c2": "t1-1 t2-0 t2-1", "c3": "t1-2"}
    assert assigned(RangeAssignor(), topics("t1:3 t2:2"), members) == expected


def test_e3_static_members_come_first_by_instance_id() -> None:
    wishes = dict.fromkeys(["m-a", "m-x", "m-y", "m-z"], "t1 t2")
    members = static(group(wishes), m_z="i1", m_y="i2", m_x="i3")
    assert assigned(RangeAssignor(), topics("t1:5 t2:4"), members) == {
        "m-z": "t1-0 t1-1 t2-0",
        "m-y": "t1-2 t2-1",
        "m-x": "t1-3 t2-2",
        "m-a": "t1-4 t2-3",
    }


def test_e4_members_read_from_their_rack() -> None:
    cluster = topics("t:4", {"t": "a b a b"})
    members = group({"C0": "t", "C1": "t"}, C0="b", C1="a")
    assert assigned(RangeAssignor(), cluster, members) == {"C0": "t-1 t-3", "C1": "t-0 t-2"}


def test_e5_co_partitioning_outranks_racks() -> None:
    cluster = topics("t:2 u:2", {"t": "a b", "u": "b a"})
    members = group({"C0": "t u", "C1": "t u"}, C0="a", C1="b")
    assert assigned(RangeAssignor(), cluster, members) == {"C0": "t-0 u-0", "C1": "t-1 u-1"}


def test_unknown_topics_are_skipped_and_everybody_has_an_entry() -> None:
    members = group({"C0": "t gone", "C1": "gone", "C2": ""})
    assert assigned(RangeAssignor(), topics("t:2 gone:0"), members) == {"C0": "t-0 t-1", "C1": "", "C2": ""}
    assert assigned(RangeAssignor(), topics("t:2"), {}) == {}


def test_member_ids_are_compared_by_utf16_code_unit_as_in_java() -> None:
    members = group({"\uff5e": "t", "\U0001f600": "t"})
    assert assigned(RangeAssignor(), topics("t:1"), members) == {"\U0001f600": "t-0", "\uff5e": ""}


def test_range_tells_and_remembers_nothing() -> None:
    assignor = RangeAssignor()
    assignor.on_assignment(Assignment(), Generation(1))
    assert assignor.subscription_user_data([]) is None
