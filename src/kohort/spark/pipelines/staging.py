"""What Spark's tasks have written aside, looked at before it lands: which records are in which file."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.parquet import read_columns
from kohort.spark.pipelines.spans import Span
from kohort.spark.pipelines.table import DATE, is_visible_parquet

GOOD, BAD = "good", "bad"
TABLE = "_table="


class Staged(NamedTuple):
    """A finished file. ``spans`` are the smallest that hold all its offsets, by partition."""

    path: str
    topic: str
    date: str
    is_bad: bool
    rows: Counter[int]
    spans: dict[int, Span]


def staged_files(files: LocalFiles, directory: str) -> list[Staged]:
    """All files under ``directory``: ``good`` or ``bad``, by topic and date, as Spark has written them."""
    return list(_found(files, directory))


def _found(files: LocalFiles, directory: str) -> Iterator[Staged]:
    for kind in (GOOD, BAD):
        for table in _directories(files, f"{directory}/{kind}", TABLE):
            for date in _directories(files, table, DATE):
                for entry in filter(is_visible_parquet, files.entries(date)):
                    yield _look(files, f"{date}/{entry.name}", kind)


def _directories(files: LocalFiles, directory: str, prefix: str) -> Iterable[str]:
    return [
        f"{directory}/{entry.name}" for entry in files.entries(directory) if entry.name.startswith(prefix)
    ]


def _look(files: LocalFiles, path: str, kind: str) -> Staged:
    table, date, _ = path.rsplit("/", 3)[1:]
    columns = read_columns(files.at(path), ("partition", "offset"))
    grouped = columns.group_by("partition").aggregate(
        [("offset", "min"), ("offset", "max"), ("offset", "count")]
    )
    found = grouped.to_pylist()
    return Staged(
        path=path,
        topic=table.removeprefix(TABLE),
        date=date,
        is_bad=kind == BAD,
        rows=Counter({one["partition"]: one["offset_count"] for one in found}),
        spans={one["partition"]: Span(one["offset_min"], one["offset_max"] + 1) for one in found},
    )
