"""What a load says about the tables that were made before it."""

import pytest

from kohort.lake.landing import ends_not_landed, note_ends
from kohort.lake.log_ends import LogEnd
from kohort.lake.manifest import Manifest


@pytest.mark.parametrize(
    ("ts", "topic_id", "expected"),
    [
        (11, "known", False),
        (10, "known", True),  # of a time that the tables have
        (11, "late", True),  # the tables have the id where the name belongs
    ],
)
def test_ends_that_belong_before_the_tables_are_noted(ts: int, topic_id: str, expected: bool) -> None:
    before, after = Manifest(newest_end=10, unnamed=["late"], names={"known": "t"}), Manifest()
    note_ends(before, after, [LogEnd(ts, "t", 0, 0, 5, topic_id)])
    assert after.is_out_of_order is expected
    assert after.newest_end == max(ts, 10)
    assert after.names == {"known": "t", topic_id: "t"}


def end(ts: int, partition: int, log_end: int) -> LogEnd:
    return LogEnd(ts, "t", partition, 0, log_end, "id")


def test_only_files_that_were_written_to_have_ends_to_land_which_are_not_out_of_order() -> None:
    first, second = Manifest(), Manifest()
    ends = [end(100, 0, 5), end(200, 1, 6)]
    assert ends_not_landed(Manifest(), first, ends) == ends
    note_ends(Manifest(), first, ends)
    assert ends_not_landed(first, second, ends) == []
    third = Manifest(written=second.written, newest_end=first.newest_end)
    fresh = ends_not_landed(third, after := Manifest(), [end(199, 0, 7), end(200, 1, 6), end(300, 2, 1)])
    assert fresh == [end(201, 0, 7), end(300, 2, 1)], "written while the files before were looked at"
    note_ends(third, after, fresh)
    assert not after.is_out_of_order
    assert ends_not_landed(after, Manifest(), [end(199, 0, 7), end(200, 1, 6)]) == []


def test_a_load_knows_how_many_partitions_each_topic_has() -> None:
    after = Manifest()
    ends = [
        LogEnd(1, topic, number, 0, 5, None) for topic, number in (("t", 0), ("t", 2), ("t", 1), ("u", 0))
    ]
    note_ends(Manifest(partitions={"t": 2, "v": 4}), after, ends)
    assert after.partitions == {"t": 3, "u": 1, "v": 4}
