"""Where ``reset-offsets`` sets a group to."""

from datetime import UTC, datetime

import pytest

from kohort.cli.groups.reset_plan import (
    Facts,
    OffsetReset,
    ResetError,
    ResetKind,
    ResetRequest,
    export_lines,
    not_before_1970,
    parse_duration,
    parse_offsets,
    parse_time,
    plan_resets,
)
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(TopicName(topic), Partition(number))


# Partition 0 has offsets 10 to 99 and a commit at 50, partition 1 has 0 to 9 and none.
FACTS = Facts(
    ranges={tp(0): (10, 100), tp(1): (0, 10)}, committed={tp(0): 50}, at_time={tp(0): 70, tp(1): -1}
)


def new_offsets(wish: ResetRequest) -> list[int]:
    return [one.new for one in plan_resets(wish, [tp(1), tp(0)], FACTS)]


@pytest.mark.parametrize(
    ("wish", "offsets"),
    [
        (ResetRequest(ResetKind.EARLIEST), [10, 0]),
        (ResetRequest(ResetKind.LATEST), [100, 10]),
        (ResetRequest(ResetKind.OFFSET, 10), [10, 10]),
        (ResetRequest(ResetKind.CURRENT), [50, 10]),
        (ResetRequest(ResetKind.TIME, 123), [70, 10]),
        (ResetRequest(ResetKind.DURATION, 123), [70, 10]),
        (ResetRequest(ResetKind.FILE, offsets={tp(0): 42, tp(1): 7}), [42, 7]),
    ],
)
def test_each_wish_leads_somewhere(wish: ResetRequest, offsets: list[int]) -> None:
    assert new_offsets(wish) == offsets


@pytest.mark.parametrize(("by", "offset"), [(7, 57), (-7, 43), (1_000, 100), (-1_000, 10)])
def test_a_shift_goes_from_what_is_committed_and_stays_in_the_log(by: int, offset: int) -> None:
    (reset,) = plan_resets(ResetRequest(ResetKind.SHIFT, by), [tp(0)], FACTS)
    assert (reset.current, reset.new) == (50, offset)


def test_what_is_not_committed_cannot_be_shifted() -> None:
    with pytest.raises(ResetError, match="cannot shift t-1: nothing is committed for it"):
        plan_resets(ResetRequest(ResetKind.SHIFT, 1), [tp(1)], FACTS)


def test_offsets_outside_the_log_are_moved_to_its_ends_with_a_note() -> None:
    assert plan_resets(ResetRequest(ResetKind.OFFSET, 5), [tp(0), tp(1)], FACTS)[0] == OffsetReset(
        tp(0), 50, 10, "5 is before the log: set to its first offset"
    )
    assert plan_resets(ResetRequest(ResetKind.OFFSET, 50), [tp(0), tp(1)], FACTS)[1] == OffsetReset(
        tp(1), None, 10, "50 is beyond the log: set to its end"
    )


def test_a_time_after_the_last_record_is_the_end_with_a_note() -> None:
    assert (
        plan_resets(ResetRequest(ResetKind.TIME, 1), [tp(1)], FACTS)[0].note
        == "no record is that new: set to the end"
    )


def test_where_nothing_is_committed_the_current_place_is_the_end_with_a_note() -> None:
    assert (
        plan_resets(ResetRequest(ResetKind.CURRENT), [tp(1)], FACTS)[0].note
        == "nothing was committed: set to the end"
    )


def test_a_partition_without_a_leader_is_an_error() -> None:
    with pytest.raises(ResetError, match="t-9 cannot be asked"):
        plan_resets(ResetRequest(ResetKind.EARLIEST), [tp(9)], FACTS)


def test_a_time_with_a_zone_is_that_time() -> None:
    noon = round(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1_000)
    assert parse_time("2026-01-31T12:00:00Z") == noon
    assert parse_time("2026-01-31T13:00:00.005+01:00") == noon + 5


def test_a_time_without_a_zone_is_local() -> None:
    assert parse_time("2026-01-31T12:00") == round(datetime(2026, 1, 31, 12).timestamp() * 1_000)


def test_times_before_the_first_are_the_first() -> None:
    assert [not_before_1970(at) for at in (-2, -1, 0, 1)] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("PT30M", 1_800_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4S", 93_784_000),
        ("PT0.5S", 500),
        ("PT0S", 0),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, millis: int) -> None:
    assert parse_duration(text) == millis


@pytest.mark.parametrize("text", ["", "P", "PT", "30M", "P1M", "PT-5M", "P1DT", "1 day"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ResetError, match="for example PT30M"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ResetError, match="for example 2026"):
        parse_time(text)


def test_what_is_exported_can_be_read_back() -> None:
    resets = [OffsetReset(tp(0), 1, 5), OffsetReset(tp(1, "u"), None, 6)]
    lines = export_lines(resets)
    assert lines == ["t,0,5", "u,1,6"]
    assert parse_offsets(lines, "g") == {tp(0): 5, tp(1, "u"): 6}


def test_a_file_with_groups_is_read_for_ours_only() -> None:
    assert parse_offsets(["g,t,0,5", "", "other,t,1,6"], "g") == {tp(0): 5}


@pytest.mark.parametrize("line", ["t,0", "t,zero,5", "t,0,5,6,7", "TOPIC,PARTITION,OFFSET"])
def test_a_line_that_is_no_offset_is_named(line: str) -> None:
    with pytest.raises(ResetError, match="line 2 is not topic,partition,offset"):
        parse_offsets(["t,0,5", line], "g")
