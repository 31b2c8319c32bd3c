"""Where partitions start and end."""

from collections.abc import Collection, Mapping

import pytest

from kohort.model.topics import TopicPartition
from kohort.spark.errors import NoMatchingOffsetError, OptionError
from kohort.spark.offsets import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    FromGroup,
    Latest,
    Offsets,
    OffsetsSpec,
    topic_partition,
)
from kohort.spark.positions import resolve

A, B = topic_partition("t", 0), topic_partition("t", 1)


class TwoLogs:
    """Both partitions hold the offsets 10 to 19, one a second; the group has committed 15 for the first."""

    def log_starts(self, partitions: Collection[TopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 10)

    def log_ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 20)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {where: 10 + time // 1_000 if time < 10_000 else None for where, time in times.items()}

    def committed(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {where: 15 for where in partitions if where == A}


@pytest.mark.parametrize(
    ("place", "offsets"),
    [
        (Earliest(), {A: 10, B: 10}),
        (Latest(), {A: 20, B: 20}),
        (FromGroup(), {A: 15, B: 10}),
        (AtOffsets({A: -1, B: 12}), {A: 20, B: 12}),
        (AtOffsets({A: -2, B: -1}), {A: 10, B: 20}),
        (AtTimestamp(3_000), {A: 13, B: 13}),
        (AtTimestamps({A: 1_000, B: 2_000}), {A: 11, B: 12}),
        (AtTimestamps({A: 1_000, B: 99_000}, or_latest=True), {A: 11, B: 20}),
    ],
)
def test_a_place_is_an_offset_in_each_partition(place: OffsetsSpec, offsets: Offsets) -> None:
    assert resolve(place, [A, B], TwoLogs(), reset="earliest") == offsets


def test_a_partition_without_a_commit_can_start_at_its_end() -> None:
    assert resolve(FromGroup(), [A, B], TwoLogs(), reset="latest") == {A: 15, B: 20}


def test_a_time_that_no_record_reaches_is_an_error_with_advice() -> None:
    with pytest.raises(NoMatchingOffsetError, match="startingOffsetsByTimestampStrategy"):
        resolve(AtTimestamp(99_000), [A], TwoLogs(), reset="latest")


@pytest.mark.parametrize("place", [AtOffsets({A: 1}), AtTimestamps({A: 1, B: 1, topic_partition("u", 0): 1})])
def test_json_names_all_partitions_and_no_others(place: OffsetsSpec) -> None:
    with pytest.raises(OptionError, match="exactly the partitions that are read"):
        resolve(place, [A, B], TwoLogs(), reset="latest")
