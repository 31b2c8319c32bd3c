"""The offset of a member: it says what its batch reads, in one text for one meaning."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.spark.errors import OptionError
from kohort.spark.group.offsets import GroupOffsetSpan, from_json, held_in, ranges_of, to_json
from kohort.spark.offsets import OffsetRange, topic_partition

A, B, C = (topic_partition("t", number) for number in range(3))
ANY_SPANS = st.dictionaries(
    st.builds(topic_partition, st.sampled_from(["a", "b-2", "orders"]), st.integers(0, 120)),
    st.builds(
        GroupOffsetSpan,
        st.integers(0, 50),
        st.integers(50, 100),
        st.integers(0, 9),
        st.sampled_from(["", "x"]),
    ),
)


def test_topics_are_in_order_and_partitions_in_the_order_of_their_numbers() -> None:
    spans = {
        topic_partition("orders", 10): GroupOffsetSpan(1, 2, 7),
        topic_partition("orders", 9): GroupOffsetSpan(500, 700, 7),
        topic_partition("bills", 0): GroupOffsetSpan(0, 0, 6, "1a"),
    }
    assert json.dumps(to_json(spans)) == json.dumps(
        {
            "bills": {"0": {"from": 0, "to": 0, "epoch": 6, "id": "1a"}},
            "orders": {"9": {"from": 500, "to": 700, "epoch": 7}, "10": {"from": 1, "to": 2, "epoch": 7}},
        }
    )


@pytest.mark.slow
@given(ANY_SPANS)
def test_what_is_written_is_read_back_and_written_the_same(spans: dict[object, GroupOffsetSpan]) -> None:
    text = json.dumps(to_json(spans))  # type: ignore[arg-type]  # made of partitions
    assert from_json(json.loads(text)) == spans
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


def test_only_what_has_records_in_the_batch_is_read() -> None:
    spans = {
        topic_partition("t", 1): GroupOffsetSpan(5, 9, 1),
        topic_partition("t", 0): GroupOffsetSpan(3, 3, 1),
    }
    assert ranges_of(spans) == [OffsetRange("t", 1, 5, 9)]


def test_the_checkpoint_of_another_kind_of_query_is_refused() -> None:
    with pytest.raises(OptionError, match="new checkpoint"):
        from_json({"t": {"0": 23}})


def test_a_member_holds_what_it_has_planned_in_its_last_generation() -> None:
    given_away = GroupOffsetSpan(9, 9, epoch=3)
    idle, read = GroupOffsetSpan(4, 4, epoch=5), GroupOffsetSpan(4, 7, epoch=5)
    spans = dict(zip((A, B, C), (given_away, idle, read), strict=True))
    assert held_in(spans) == {B, C}
    assert held_in({A: GroupOffsetSpan(9, 9, epoch=8), B: GroupOffsetSpan(0, 2, epoch=1)}) == {B}, (
        "a group made again counts anew"
    )
    assert held_in({A: given_away, B: idle}) == {B}
    assert held_in({}) == set()
