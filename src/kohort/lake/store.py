"""A lake on disk: Parquet files under ``TABLE/load=N/date=D``, and a ledger that says which loads are there.

A load is written aside, entered in the ledger, and then moved into the tables. Whatever is interrupted is
finished or thrown away when the lake is next opened for writing, so that no row is lost or doubled.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.lake.schemas import DERIVED, LANDED, TABLES, TableInfo
from kohort.model.errors import KohortError
from kohort.spark.pipelines.files import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offsets = dict[str, dict[str, int]]
"""The next offset to land, by topic and partition; partitions as text, because it is kept as JSON."""

_VERSION = 1
_OURS = "_kohort"


class LakeError(KohortError):
    """A directory is no lake, or is not to be used in this way."""


@dataclass(slots=True)
class Load:
    """One landing: what was read, and how far."""

    number: int
    source: str
    next_offsets: Offsets = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "load": self.number,
            "source": self.source,
            "next_offsets": self.next_offsets,
            "topic_ids": self.topic_ids,
            "rows": self.rows,
        }


class Lake:
    """The directory of a lake. ``writing`` is for one process at a time; reading needs nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ours = root / _OURS
        self._loads = self._ours / "loads"
        self._staging = self._ours / "staging"

    @classmethod
    def existing(cls, root: Path) -> "Lake":
        """Raises ``LakeError`` if there is none."""
        lake = cls(root)
        if not lake._loads.is_dir():
            raise LakeError(
                f"there is no lake in {root}",
                hint="make one with `kohort lake backfill --from HOST:PORT --to DIR`",
            )
        return lake

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lake's lock; what was interrupted is put right. Raises ``LakeError`` if it is held."""
        if not self._ours.is_dir() and self.root.is_dir() and any(self.root.iterdir()):
            raise LakeError(f"{self.root} is not empty and no lake", hint="name a new directory with --to")
        self._loads.mkdir(parents=True, exist_ok=True)
        with open(self._ours / "lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LakeError(
                    f"another process writes to the lake in {self.root}",
                    hint="stop it first, or use another --to",
                ) from error
            self._recover()
            yield

    def _recover(self) -> None:
        for load in self.loads():
            self._publish(load.number)
        shutil.rmtree(self._staging, ignore_errors=True)
        for table in DERIVED:
            old = self._ours / f"old-{table.name}"
            if old.is_dir() and not (self.root / table.name).is_dir():
                os.rename(old, self.root / table.name)
            shutil.rmtree(old, ignore_errors=True)

    # --- the ledger ---------------------------------------------------------------------------

    def loads(self) -> list[Load]:
        """All landings that count, in order."""
        return [_read(path) for path in sorted(self._loads.glob("*.json"))]

    def next_offsets(self) -> Offsets:
        """Where the next landing begins."""
        reached: Offsets = {}
        for load in self.loads():
            for topic, offsets in load.next_offsets.items():
                reached.setdefault(topic, {}).update(offsets)
        return reached

    def topic_ids(self) -> dict[str, str]:
        """Of the topics that were landed, as far as the source had ids."""
        return {topic: found for load in self.loads() for topic, found in load.topic_ids.items()}

    def stage(self, table: TableInfo, number: int) -> Path:
        """Where the rows of a load are written first."""
        path = self._staging / f"{number:06d}" / table.name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def enter(self, load: Load) -> None:
        """From here on the load counts; then its files are moved into the tables."""
        LocalFiles(self._loads).replace(f"{load.number:06d}.json", json.dumps(load.as_json()).encode())
        self._publish(load.number)

    def _publish(self, number: int) -> None:
        for table in LANDED:
            staged = self._staging / f"{number:06d}" / table.name
            if staged.is_dir():
                target = self.root / table.name / f"load={number:06d}"
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(staged, target)

    # --- tables -------------------------------------------------------------------------------

    def read(self, spark: "SparkSession", table: TableInfo) -> "DataFrame":
        """A table with its columns; without rows if nothing has landed."""
        path = self.root / table.name
        if next(path.rglob("*.parquet"), None) is None:
            return spark.createDataFrame([], table.schema)
        return spark.read.schema(table.schema).parquet(str(path)).select(*table.columns)

    def write(self, table: TableInfo, frame: "DataFrame") -> None:
        """Put these rows in the place of a derived table's."""
        staged = self._staging / table.name
        write_dated(frame, table, staged)
        target, old = self.root / table.name, self._ours / f"old-{table.name}"
        if target.is_dir():
            os.rename(target, old)
        os.rename(staged, target)
        shutil.rmtree(old, ignore_errors=True)

    def count(self, table: TableInfo) -> int:
        """How many rows a table has, from the ends of its files."""
        return count_rows(self.root / table.name)

    def views(self, spark: "SparkSession") -> None:
        """Offer every table to SQL under its name."""
        for table in TABLES.values():
            self.read(spark, table).createOrReplaceTempView(table.name)


def count_rows(path: Path) -> int:
    """The rows of all files under a directory."""
    from kohort.spark.pipelines.parquet import count_rows as count

    return sum(count(file) for file in path.rglob("*.parquet"))


def write_dated(frame: "DataFrame", table: TableInfo, path: Path) -> None:
    """Write rows as Parquet, one directory for each day of the table's time."""
    from pyspark.sql import functions as f

    dated = frame.withColumn("date", f.coalesce(f.to_date(table.time), f.lit("1970-01-01").cast("date")))
    dated.write.partitionBy("date").mode("overwrite").option("compression", "zstd").parquet(str(path))


def _read(path: Path) -> Load:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text())
        if found["version"] != _VERSION:
            raise LakeError(f"{path} has version {found['version']}", hint="a newer Kohort wrote this lake")
        return Load(found["load"], found["source"], found["next_offsets"], found["topic_ids"], found["rows"])
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(f"{path} cannot be read: {error!r}", hint="restore it, or fill a new lake") from error
