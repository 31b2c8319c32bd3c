"""Merging small files: the same records in fewer files, whatever is interrupted."""

import os
from pathlib import Path

import pytest
from tests.unit.spark.pipelines.conftest import Fill

from kohort.spark.pipelines import compaction
from kohort.spark.pipelines.compaction import MIB, Merged, MergeError, Sizes, choose, compact
from kohort.spark.pipelines.files import CannotExchangeError, DirectoryEntry, LocalFiles
from kohort.spark.pipelines.parquet import count_rows, merge, read_columns
from kohort.spark.pipelines.table import Table

EAGER = Sizes(least=2)


def entries(*sizes: int) -> list[DirectoryEntry]:
    return [DirectoryEntry(f"{number:03}.parquet", size * MIB, False) for number, size in enumerate(sizes)]


def offsets(table: Table) -> list[int]:
    files = table.files
    assert isinstance(files, LocalFiles)
    return sorted(
        offset
        for date in table.dates()
        for entry in table.parquet_files(date)
        for offset in read_columns(files.at(f"{date}/{entry.name}"), ["offset"]).column(0).to_pylist()
    )


def test_few_small_files_are_left_alone() -> None:
    assert choose(entries(*[1] * 15), Sizes()) == []


def test_files_are_merged_up_to_the_size_that_is_wanted() -> None:
    groups = choose(entries(60, 60, 200, 60, 3), Sizes(least=2))
    assert [[entry.size // MIB for entry in group] for group in groups] == [[60, 60], [60, 3]]


def test_a_file_that_no_other_fits_to_stays() -> None:
    assert choose(entries(60, 60, 50), Sizes(target=100 * MIB, least=2)) == []


def test_a_day_has_the_same_records_in_fewer_files(fill: Fill, tmp_path: Path) -> None:
    for first in range(0, 20, 2):
        table = fill("2026-11-16", first, first + 2)
    fill("2026-11-17", 20, 22)
    assert compact([table], tmp_path, EAGER, lambda: True) == [Merged("orders/date=2026-11-16", 10, 1)]
    assert offsets(table) == list(range(22))
    assert compact([table], tmp_path, EAGER, lambda: True) == []


def test_what_lands_while_files_are_merged_stays(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in range(0, 8, 2):
        table = fill("2026-11-16", first, first + 2)

    def overtaken(sources: list[Path], target: Path) -> None:
        merge(sources, target)
        fill("2026-11-16", 8, 10)

    monkeypatch.setattr(compaction, "merge", overtaken)
    assert compact([table], tmp_path, EAGER, lambda: True) == [Merged("orders/date=2026-11-16", 5, 2)]
    assert offsets(table) == list(range(10))


@pytest.mark.parametrize("step", ["merge", "count_rows", "link", "exchange", "remove_tree"])
def test_an_interruption_leaves_each_record_once(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    for first in range(0, 8, 2):
        table = fill("2026-11-16", first, first + 2)
    fill("2026-11-16", 8, 10_000)
    sizes = Sizes(target=4 * os.path.getsize(tmp_path / "orders/date=2026-11-16/000000.parquet"), least=2)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    owner: object = {"link": os, "exchange": LocalFiles, "remove_tree": LocalFiles}.get(step, compaction)
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, die)
        with pytest.raises(KeyboardInterrupt):
            compact([table], tmp_path, sizes, lambda: True)
    assert offsets(table) == list(range(10_000))
    compact([table], tmp_path, sizes, lambda: True)
    assert offsets(table) == list(range(10_000))
    assert not any((tmp_path / compaction.ASIDE).glob("*"))


def test_a_merged_file_that_lacks_records_is_not_used(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill("2026-11-16", 0, 2)
    table = fill("2026-11-16", 2, 4)
    monkeypatch.setattr(compaction, "merge", lambda sources, target: merge(sources[:1], target))
    with pytest.raises(MergeError, match="made 2 records of 4"):
        compact([table], tmp_path, EAGER, lambda: True)
    assert offsets(table) == list(range(4))


def test_one_merger_works_at_a_time(fill: Fill, tmp_path: Path) -> None:
    fill("2026-11-16", 0, 2)
    table = fill("2026-11-16", 2, 4)
    with LocalFiles(tmp_path).locked("_kohort/_merging.lock"):
        assert compact([table], tmp_path, EAGER, lambda: True) == []


def test_it_stops_when_told_to(fill: Fill, tmp_path: Path) -> None:
    fill("2026-11-16", 0, 2)
    table = fill("2026-11-16", 2, 4)
    assert compact([table], tmp_path, EAGER, lambda: False) == []


def test_directories_that_cannot_change_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(CannotExchangeError, match="No such file"):
        LocalFiles(tmp_path).exchange("a", "b")


def test_rows_are_counted_from_the_footer(fill: Fill, tmp_path: Path) -> None:
    fill("2026-11-16", 0, 7)
    assert count_rows(tmp_path / "orders/date=2026-11-16/000000.parquet") == 7
