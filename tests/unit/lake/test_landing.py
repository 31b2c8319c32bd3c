"""What a load says about the tables that were made before it."""

import pytest

from kohort.lake.landing import note_ends
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
