"""Simulated members remember what they said."""

from kohort.groups.classic.subscription import read_topics
from kohort.sim.members import SimulatedMember, subscription


def test_a_subscription_names_its_topics() -> None:
    assert subscription("t") == bytes.fromhex("0000 00000001 0001 74 ffffffff")


def test_what_is_left_out_stays_as_it_was() -> None:
    member = SimulatedMember("a")
    member.remember({"session_timeout": 7_000, "protocols": ["x", ("y", b"2")], "instance": "i"})
    member.remember({"version": 3})
    assert (member.session_timeout, member.version, member.instance_id) == (7_000, 3, "i")
    assert [name for name, _ in member.protocols] == ["x", "y"]
    assert member.protocols[1].metadata == b"2"
    assert member.client_id == "a"


def test_a_change_can_be_seen_and_the_topics_still_be_read() -> None:
    member = SimulatedMember("a")
    member.remember({"topics": ["t", "u"]})
    before = member.protocols
    member.remember({"changed": True})
    assert member.protocols != before
    assert read_topics(member.protocols[0].metadata) == ["t", "u"]


def test_an_instance_can_be_given_up() -> None:
    member = SimulatedMember("a")
    member.remember({"instance": "i", "member_id": "m"})
    member.remember({"instance": None})
    assert (member.instance_id, member.member_id) == (None, "m")
