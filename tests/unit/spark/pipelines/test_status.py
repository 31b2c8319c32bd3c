"""What is in an archive, as its ledgers and directories tell."""

from pathlib import Path

from tests.unit.spark.pipelines.conftest import Fill

from kohort.spark.pipelines.spans import Span
from kohort.spark.pipelines.status import status, status_json


def test_rows_files_days_and_gaps_are_told(fill: Fill, tmp_path: Path) -> None:
    fill("2026-11-16", 0, 5)
    fill("2026-11-17", 8, 10)
    (orders,) = status(tmp_path)
    assert (orders.topic, orders.rows, orders.bad, orders.files, orders.missing) == ("orders", 7, 0, 2, 3)
    assert orders.dates == ("2026-11-16", "2026-11-17")
    assert orders.partitions[0].gaps == (Span(5, 8),)
    assert orders.bytes > 0


def test_as_json_it_has_offsets_and_gaps_of_each_partition(fill: Fill, tmp_path: Path) -> None:
    fill("2026-11-16", 0, 5)
    fill("2026-11-16", 8, 10)
    document = status_json(status(tmp_path)[0])
    assert document["partitions"] == [
        {
            "topic_id": "id",
            "partition": 0,
            "offsets": [[0, 5], [8, 10]],
            "gaps": [[5, 8]],
            "rows": 7,
            "bad": 0,
        }
    ]


def test_a_directory_that_is_no_archive_has_no_tables(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    assert status(tmp_path) == []
    assert status(tmp_path / "nowhere") == []
