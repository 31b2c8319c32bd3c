"""Text as Java counts and hashes it."""

import pytest

from kohort.primitives.strings import java_hash, partition_for, utf16_length


@pytest.mark.parametrize(
    ("group_id", "value", "partition"),
    [
        ("", 0, 0),
        ("test", 3556498, 48),
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -2147483648, 0),
        ("消费组", 28099635, 35),
        ("\U0001f600", 1772899, 49),
    ],
)
def test_a_group_hashes_as_in_java(group_id: str, value: int, partition: int) -> None:
    assert java_hash(group_id) == value
    assert partition_for(group_id, 50) == partition


def test_a_group_lives_where_kafka_puts_it() -> None:
    assert partition_for("kohort", 50) == 23


def test_a_lone_surrogate_hashes_as_one_unit() -> None:
    assert java_hash("\ud800") == 0xD800


@pytest.mark.parametrize(
    ("text", "units"), [("", 0), ("abc", 3), ("é費", 2), ("a\U0001f600", 3), ("\ud800", 1)]
)
def test_length_counts_utf16_units(text: str, units: int) -> None:
    assert utf16_length(text) == units
