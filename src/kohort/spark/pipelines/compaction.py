"""Many small files of a day become few: beside the table, then in its place in one step.

The directory that is to be is built aside: the merged file, and a second name for each file that stays. Then
the two directories change places, which a file system does in one step. So a reader finds the old files or
the new ones, never both and never neither; and a crash leaves nothing but a directory that is not in use.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from kohort.model.errors import KohortError
from kohort.spark.pipelines.files import DirectoryEntry, LocalFiles
from kohort.spark.pipelines.parquet import count_rows, merge
from kohort.spark.pipelines.table import PARQUET, STATE, Table

MIB = 1024 * 1024
ASIDE = f"{STATE}/_merging"

LOCK = f"{STATE}/_merging.lock"


class MergeError(KohortError):
    """A merged file does not have the records of its sources; the table is as it was."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """When to merge: files below half of ``target`` are small, ``least`` of them in a day too many."""

    target: int = 128 * MIB
    least: int = 16


class Merged(NamedTuple):
    """What was done to one day."""

    date: str
    before: int
    after: int


def choose(entries: Sequence[DirectoryEntry], sizes: Sizes) -> list[list[DirectoryEntry]]:
    """Which files to merge with which, in the order of their names; none if few are small."""
    small = [entry for entry in entries if entry.size < sizes.target // 2]
    if len(small) < sizes.least:
        return []
    groups: list[list[DirectoryEntry]] = [[]]
    for entry in small:
        if groups[-1] and sum(one.size for one in groups[-1]) + entry.size > sizes.target:
            groups.append([])
        groups[-1].append(entry)
    return [group for group in groups if len(group) > 1]


def compact(tables: Sequence[Table], root: Path, sizes: Sizes, go_on: Callable[[], bool]) -> list[Merged]:
    """Merge what is small in all days of these tables, as long as ``go_on``; nothing if another process does.

    Raises CannotExchangeError where directories cannot change places.
    """
    files = LocalFiles(root)
    merged = []
    with files.locked_if_free(LOCK) as ours:
        if ours:
            files.remove_tree(ASIDE)  # left by one that died
            for table in tables:
                for date in table.dates():
                    groups = choose(table.parquet_files(date), sizes) if go_on() else []
                    if groups:
                        merged.append(_compact_day(files, table, date, groups))
    return merged


def _compact_day(
    files: LocalFiles, table: Table, date: str, groups: Sequence[Sequence[DirectoryEntry]]
) -> Merged:
    """Only mergers remove files, and we are the only one: the sources stay until we let them go."""
    aside = f"{ASIDE}/{uuid4().hex[:8]}"
    os.makedirs(files.at(aside))
    for number, group in enumerate(groups):
        _merge(files, date, group, f"{aside}/merged-{uuid4().hex[:8]}-{number:03}{PARQUET}")
    replaced = {entry.name for group in groups for entry in group}
    with files.locked(table.lock):
        before = table.parquet_files(date)
        for entry in before:
            if entry.name not in replaced:
                os.link(files.at(f"{date}/{entry.name}"), files.at(f"{aside}/{entry.name}"))
        files.exchange(aside, date)
        table.follow([date], is_data=False)
    files.remove_tree(aside)
    return Merged(date, len(before), len(before) - len(replaced) + len(groups))


def _merge(files: LocalFiles, date: str, group: Sequence[DirectoryEntry], target: str) -> None:
    sources = [files.at(f"{date}/{entry.name}") for entry in group]
    merge(sources, files.at(target))
    wanted, found = sum(map(count_rows, sources)), count_rows(files.at(target))
    if wanted != found:
        raise MergeError(
            f"merging {date} made {found} records of {wanted}",
            hint="the table is as it was; please report it, with one of the files if you can",
        )
    files.sync(target)
