"""Offsets as a checkpoint has them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition
from kohort.spark.offsets import (
    OffsetRange,
    Offsets,
    from_json,
    ids_from_json,
    parse_offsets,
    parse_partitions,
    show,
    to_json,
    topic_partition,
)

PARTITIONS = st.builds(topic_partition, st.sampled_from(["a", "b", "a.b", "z"]), st.integers(0, 300))


def test_topics_are_in_order_and_partitions_in_order_of_their_numbers() -> None:
    offsets = {topic_partition("b", 0): 3, topic_partition("a", 10): 2, topic_partition("a", 9): 1}
    assert json.dumps(to_json(offsets)) == '{"a": {"9": 1, "10": 2}, "b": {"0": 3}}'


@pytest.mark.slow
@given(st.dictionaries(PARTITIONS, st.integers(0, 2**62)))
def test_offsets_survive_the_checkpoint(offsets: Offsets) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@pytest.mark.slow
@given(st.permutations([(topic_partition("a", number), number) for number in range(12)]))
def test_the_text_does_not_depend_on_the_order_of_insertion(items: list[tuple[TopicPartition, int]]) -> None:
    assert json.dumps(to_json(dict(items))) == json.dumps(to_json(dict(sorted(items))))


def test_the_connectors_checkpoint_can_be_read() -> None:
    assert from_json({"t": {"0": 23}}) == {topic_partition("t", 0): 23}
    assert ids_from_json({"t": {"0": 23}}) == {}


def test_topic_ids_stand_beside_the_offsets() -> None:
    offsets = {topic_partition("t", 3): 7, topic_partition("u", 0): 1}
    nested = to_json(offsets, {TopicName("t"): "abc", TopicName("other"): "xyz"})
    assert json.dumps(nested) == '{"t": {"3": 7, "id": "abc"}, "u": {"0": 1}}'
    assert from_json(nested) == offsets
    assert ids_from_json(nested) == {"t": "abc"}


def test_options_have_the_same_form() -> None:
    assert parse_offsets("startingOffsets", '{"t":{"1":-1}}') == {topic_partition("t", 1): -1}
    assert parse_offsets("startingOffsets", '{"t":{"1":5,"id":"abc"}}') == {topic_partition("t", 1): 5}
    assert parse_partitions("assign", '{"t":[2,0,2]}') == (topic_partition("t", 0), topic_partition("t", 2))


def test_a_range_shows_what_it_holds() -> None:
    assert str(OffsetRange("t", 2, 5, 9)) == "t-2 [5, 9)"
    assert OffsetRange("t", 2, 5, 9).size == 4


def test_many_partitions_are_shown_in_short() -> None:
    assert show([topic_partition("t", number) for number in range(8)]).endswith("t-4 and 3 more")
