"""What the pipeline tells, in lines and as JSON."""

import pytest

from kohort.spark.pipelines.progress import (
    Ended,
    Event,
    Landed,
    MergedFiles,
    Started,
    Trouble,
    event_json,
    event_text,
)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Started("1", "g"), "instance 1 reads as a member of group 'g'; Ctrl-C stops it"),
        (Landed(3, {"a": 1}, 0, 0, 0, 1, 0.52, 0), "batch 3: 1 row in 0.5 s, lag 0 (a 1)"),
        (
            Landed(4, {"a": 1, "b": 2_000, "c": 3, "d": 4, "e": 5}, 2, 7, 0, 5, 1.0, None),
            "batch 4: 2,013 rows in 1.0 s, 2 bad records, 7 offsets were there already "
            "(b 2,000, e 5, d 4, c 3, and 1 more)",
        ),
        (
            Landed(5, {}, 0, 0, 9, 0, 0.1, 0),
            "batch 5: 0 rows in 0.1 s, 9 offsets are gone with a topic that was made again, lag 0",
        ),
        (MergedFiles("a/date=2026-11-16", 16, 1), "a/date=2026-11-16: 16 files are now 1"),
        (Trouble("hm"), "hm"),
        (Ended(1, 1_000), "stopped after 1 batch, 1,000 rows"),
    ],
)
def test_each_event_is_a_line_for_people(event: Event, text: str) -> None:
    assert event_text(event) == text


def test_for_programs_it_is_an_object_with_the_same_facts() -> None:
    assert event_json(Ended(2, 5)) == {"event": "ended", "batches": 2, "rows": 5}
