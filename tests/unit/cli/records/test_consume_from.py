"""Where reading starts and stops."""

from datetime import datetime

import pytest

from kohort.cli.records.consume_from import Bounds, StartAt, offsets_of, parse_place
from kohort.cli.settings_text import InputError
from kohort.client.admin.topics import OffsetSpec
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition


def millis(*moment: int) -> int:
    return int(datetime(*moment).astimezone().timestamp() * 1_000)  # type: ignore[arg-type]  # year, month …


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", StartAt(OffsetSpec.EARLIEST)),
        ("beginning", StartAt(OffsetSpec.EARLIEST)),
        ("latest", StartAt(OffsetSpec.LATEST)),
        ("end", StartAt(OffsetSpec.LATEST)),
        ("0", StartAt(None, 0)),
        ("42", StartAt(None, 42)),
        ("-5", StartAt(OffsetSpec.LATEST, -5)),
        ("@1700000000123", StartAt(1_700_000_000_123)),
        ("2024-05-06", StartAt(millis(2024, 5, 6))),
        ("2024-05-06T07:08", StartAt(millis(2024, 5, 6, 7, 8))),
        ("2024-05-06T07:08:09+00:00", StartAt(1_714_979_289_000)),
    ],
)
def test_a_start_is_a_word_an_offset_or_a_time(text: str, start: StartAt) -> None:
    assert parse_place("--from", text) == start


@pytest.mark.parametrize("text", ["yesterday", "@noon", "", "12x"])
def test_what_is_no_start_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(InputError, match="cannot understand") as caught:
        parse_place("--from", text)
    assert "beginning" in caught.value.hint


A, B = (TopicPartition(TopicName("t"), Partition(number)) for number in (0, 1))
BOUNDS = Bounds({A: 5, B: 0}, {A: 10, B: 3}, {A: 7, B: None})


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("beginning", (5, 0)),
        ("end", (10, 3)),
        ("6", (6, 3)),
        ("2", (5, 2)),
        ("-2", (8, 1)),
        ("-7", (5, 0)),
        ("@123", (7, 3)),
    ],
)
def test_a_place_is_the_nearest_offset_there_is_in_each_partition(
    text: str, offsets: tuple[int, int]
) -> None:
    assert offsets_of(parse_place("--from", text), BOUNDS) == dict(zip((A, B), offsets, strict=True))
