"""Topic names and ids."""

import pytest

from kohort.model.ids import Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition, collision_key, is_legal_name, show_topic_id, why_illegal


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "__consumer_offsets", "..."])
def test_legal_names(name: str) -> None:
    assert is_legal_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n"])
def test_names_kafka_refuses(name: str) -> None:
    assert not is_legal_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * 250, "at most 249"),
        ("..", "cannot be called"),
        ("a b", "letters a to z"),
        ("ä", "letters a to z"),
    ],
)
def test_a_refused_name_comes_with_the_rule_it_breaks(name: str, reason: str) -> None:
    assert reason in why_illegal(name)
    assert repr(name) in why_illegal(name)


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a-b") != collision_key("a.b")


def test_an_id_is_shown_as_22_characters_of_base64() -> None:
    assert show_topic_id(TopicId(bytes(16))) == "A" * 22
    assert show_topic_id(TopicId(b"\xff" * 16)) == "_" * 21 + "w"


def test_a_partition_is_shown_as_its_directory_is_called() -> None:
    assert str(TopicPartition(TopicName("orders"), Partition(3))) == "orders-3"
