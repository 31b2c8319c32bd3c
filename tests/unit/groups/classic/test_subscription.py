"""Which topics a group consumes."""

import pytest

from kohort.groups.classic.subscription import read_topics
from kohort.model.ids import TopicName
from kohort.sim.driver import Scenario
from kohort.sim.members import subscription


def test_topics_are_read_from_any_version() -> None:
    assert read_topics(subscription("t", "日誌")) == ["t", "日誌"]
    assert read_topics(b"\x00\x03" + subscription("t")[2:] + b"whatever newer versions add") == ["t"]
    assert read_topics(subscription()) == []
    with_user_data = subscription("t")[:-4] + b"\x00\x00\x00\x02ab"
    assert read_topics(with_user_data) == ["t"]


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"\x00\x00\x00\x00",
        b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff",  # a negative version
        b"\x00\x00\xff\xff\xff\xff",  # a null list
        b"\x00\x00\x7f\xff\xff\xff",  # more topics than bytes
        b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff",  # a null topic
        b"\x00\x00\x00\x00\x00\x01\x00\x09t",  # a topic cut off
        b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\xff\xff\xff\xff",  # not UTF-8
        subscription("t")[:-4],  # no user data
        subscription("t")[:-4] + b"\x00\x00\x00\x09ab",  # user data cut off
        subscription("t")[:-4] + b"\xff\xff\xff\xfe",  # user data of negative length
    ],
)
def test_what_does_not_parse_tells_nothing(metadata: bytes) -> None:
    assert read_topics(metadata) is None


def test_a_group_consumes_what_any_of_its_members_does() -> None:
    scenario = Scenario()
    scenario.join("a", topics=["x"])
    scenario.join("b", topics=["y"])
    scenario.settle()
    assert scenario.group.subscribed == frozenset({TopicName("x"), TopicName("y")})


def test_one_unreadable_member_makes_it_unknown() -> None:
    scenario = Scenario()
    scenario.join("a", topics=["x"])
    scenario.join("b", protocols=[("range", b"?")])
    scenario.settle()
    assert scenario.group.subscribed is None
    assert scenario.group.is_subscribed_to(TopicName("any"))


def test_other_protocol_types_have_their_own_metadata() -> None:
    scenario = Scenario()
    scenario.join("a", protocol_type="connect")
    scenario.settle()
    assert scenario.group.subscribed is None
    assert not scenario.group.is_subscribed_to(TopicName("any"))
