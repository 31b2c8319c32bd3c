"""A lake on disk: Parquet files under ``TABLE/part=N-L/date=D``, and a manifest that says which parts count.

Rows are written aside, moved into the tables, and count when the manifest names them. What was interrupted is
removed when the lake is next opened for writing, so that no row is lost or doubled. What a refresh replaces
is removed by the next one, or when the writer ends.
"""

import fcntl
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from kohort.lake.manifest import LakeError, Manifest, Offsets, TablePart, merged, next_merge
from kohort.lake.schemas import GROUP_SNAPSHOTS, OFFSET_COMMITS, OFFSET_EXPIRY, TABLES, TableInfo
from kohort.spark.pipelines.delta_log import DeltaLog
from kohort.spark.pipelines.files import LocalFiles, check_directory, is_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Lake", "LakeError", "Manifest", "Offsets", "count_rows", "no_rows", "write_dated"]

_OURS = "_kohort"
_MANIFEST = "manifest.json"
_CARRY = "_carry"
_STAGING = "staging"
LOAD = "load"
"""A column of every file: the step that landed the row, or the newest that it was made of."""


class Lake:
    """The directory of a lake. ``writing`` is for one process at a time; reading needs nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root if is_uri(root) else root.absolute()  # writing to the first is refused
        self._ours = self.root / _OURS
        # Its own: the JVM of a process that was killed may write on for some seconds.
        self._staging = self._ours / _STAGING / uuid4().hex[:8]
        self._carry = self._ours / "carry"

    @classmethod
    def existing(cls, root: Path) -> "Lake":
        """Raises ``LakeError`` if there is none."""
        lake = cls(root)
        if not lake._ours.is_dir():
            raise LakeError(
                f"there is no lake in {root}",
                hint="make one with `kohort lake backfill --from HOST:PORT --to DIR`",
            )
        return lake

    @contextmanager
    def writing(self, *, is_delta: bool = False) -> Iterator[None]:
        """Hold the lake's lock; what was interrupted is put right. Raises ``LakeError`` if it is held.

        ``is_delta``: from now on each table is one of Delta, too.
        """
        if not self._ours.is_dir() and self.root.is_dir() and any(self.root.iterdir()):
            raise LakeError(f"{self.root} is not empty and no lake", hint="name a new directory with --to")
        check_directory(self.root)
        self._ours.mkdir(exist_ok=True)
        with open(self._ours / "lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LakeError(
                    f"another process writes to the lake in {self.root}",
                    hint="stop it first, or use another --to",
                ) from error
            found = self.manifest()
            found.is_delta = found.is_delta or is_delta
            self._publish(found)  # from now on it is never missing
            self._sweep(found)
            yield
            self._sweep(self.manifest())

    # --- what counts --------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        """What counts now; an empty one in a new lake."""
        text = LocalFiles(self._ours).read(_MANIFEST)
        if text is None:
            if any((self.root / table).is_dir() for table in TABLES):
                # Of an earlier version, or its manifest was lost: what it names must not be removed.
                raise LakeError(
                    f"{self.root} has tables and no {self._ours.name}/{_MANIFEST}",
                    hint="fill a new lake with another --to; of a lost manifest restore a copy",
                )
            return Manifest()
        try:
            return Manifest.decode(text)
        except (ValueError, KeyError, TypeError) as error:
            raise LakeError(
                f"{self._ours / _MANIFEST} cannot be read: {error!r}", hint="restore it, or fill a new lake"
            ) from error

    def commit(self, before: Manifest, after: Manifest, *, replaced: Iterable[str] = ()) -> Manifest:
        """Take what a step has staged into the tables. Of ``replaced`` tables only that counts."""
        parts = {table: list(known) for table, known in before.parts.items()}
        for table in replaced:
            parts[table] = []
        for table in TABLES:
            staged = self.stage(table, after.step)
            part = TablePart(after.step, 0, count_rows(staged))
            if part.rows:
                parts.setdefault(table, []).append(part)
                self._move(staged, self.root / table / part.directory)
        is_refresh = after.carry == after.step
        if is_refresh:
            self._move(self.stage(_CARRY, after.step), self._carry / f"{after.step:08d}")
        written = replace(after, parts=parts)
        self._publish(written)
        if is_refresh:  # what it replaces stays until the next one: it may be being read
            self._sweep(before, written)
        shutil.rmtree(self._staging, ignore_errors=True)
        return written

    def _publish(self, manifest: Manifest, *, is_data: bool = True) -> None:
        """What the manifest names counts; then it is in the logs of Delta, if the lake has them."""
        LocalFiles(self._ours).replace(_MANIFEST, manifest.encode())
        for table in TABLES if manifest.is_delta else ():
            log = DeltaLog(LocalFiles(self.root), table)
            named, known = {part.directory for part in manifest.parts.get(table, ())}, log.units()
            log.follow(named - known, known - named, is_data=is_data)

    def _move(self, staged: Path, target: Path) -> None:
        """Durably, with all that is in it: after a loss of power the manifest names nothing that is gone."""
        files = LocalFiles(self.root)
        for path in (*staged.rglob("*"), staged):
            files.sync(str(path.relative_to(self.root)))
        files.move(str(staged.relative_to(self.root)), str(target.relative_to(self.root)))

    def _sweep(self, *kept: Manifest) -> None:
        """Remove what none of these names."""
        shutil.rmtree(self._ours / _STAGING, ignore_errors=True)
        for table in TABLES:
            directory = self.root / table
            if directory.is_dir():
                self._keep(directory, {part.directory for one in kept for part in one.parts.get(table, ())})
        if self._carry.is_dir():
            self._keep(self._carry, {f"{one.carry:08d}" for one in kept})

    def _keep(self, directory: Path, names: set[str]) -> None:
        for path in directory.iterdir():
            if path.name not in names and path.name[0] not in "._":
                shutil.rmtree(path, ignore_errors=True)

    def stage(self, table: str, step: int) -> Path:
        """Where the rows of a step are written first."""
        return self._staging / f"{step:08d}" / table

    def stage_carry(self, step: int) -> Path:
        """Where a step writes what the next refresh begins with."""
        return self.stage(_CARRY, step)

    def merge(self, spark: "SparkSession") -> None:
        """Make few large parts of many small ones: each row is written again once for each level."""
        manifest = self.manifest()
        for name, info in TABLES.items():
            while small := next_merge(manifest.parts.get(name, ())):
                made = merged(small)
                staged = self.stage(name, made.step)
                write_dated(self._frame(spark, info, small), info, staged)
                self._move(staged, self.root / name / made.directory)
                kept = list(manifest.parts[name])
                place = kept.index(small[0])
                kept[place : place + len(small)] = [made]
                manifest = replace(manifest, parts=manifest.parts | {name: kept})
                self._publish(manifest, is_data=False)

    # --- tables -------------------------------------------------------------------------------

    def read(
        self, spark: "SparkSession", table: TableInfo, parts: Sequence[TablePart] | None = None
    ) -> "DataFrame":
        """A table with its columns; without rows if nothing has landed. ``parts``: only these, with loads."""
        if parts is not None:
            return self._frame(spark, table, parts)
        return self._counted(spark, table, self.manifest())

    def _counted(self, spark: "SparkSession", table: TableInfo, manifest: Manifest) -> "DataFrame":
        return self._frame(spark, table, manifest.parts.get(table.name, [])).select(*table.columns)

    def _frame(self, spark: "SparkSession", table: TableInfo, parts: Sequence[TablePart]) -> "DataFrame":
        schema = with_load(table)
        paths = [self.root / table.name / part.directory for part in parts if part.rows]
        if not paths:
            return no_rows(spark, schema)
        base = str(self.root / table.name)
        found = spark.read.schema(schema).option("basePath", base).parquet(*map(str, paths))
        return found.select(*schema.names)

    def staged(self, spark: "SparkSession", table: TableInfo, step: int) -> "DataFrame":
        """What a step has staged of a table, with loads."""
        path = self.stage(table.name, step)
        if next(path.rglob("*.parquet"), None) is None:
            return no_rows(spark, with_load(table))
        return spark.read.schema(with_load(table)).parquet(str(path)).select(*with_load(table).names)

    def carried(self, manifest: Manifest) -> Path:
        """The rows that the last refresh left for the next."""
        return self._carry / f"{manifest.carry:08d}"

    def views(self, spark: "SparkSession") -> None:
        """Offer every table and view to SQL under its name, all as of one step."""
        from kohort.lake.expiry import offset_expiry

        manifest = self.manifest()
        frames = {name: self._counted(spark, table, manifest) for name, table in TABLES.items()}
        frames[OFFSET_EXPIRY.name] = offset_expiry(
            frames[OFFSET_COMMITS.name], frames[GROUP_SNAPSHOTS.name], manifest.retention_ms
        )
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)


def with_load(table: TableInfo) -> "StructType":
    """The columns of a table's files."""
    return table.schema.add(LOAD, "integer")


def no_rows(spark: "SparkSession", schema: "StructType | str") -> "DataFrame":
    """A frame that Spark knows to be empty: it leaves out what would be made of it, and starts no tasks."""
    return spark.createDataFrame([], schema).limit(0)


def count_rows(path: Path) -> int:
    """The rows of all files under a directory."""
    from kohort.spark.pipelines.parquet import count_rows as count

    return sum(count(file) for file in path.rglob("*.parquet"))


def write_dated(frame: "DataFrame", table: TableInfo, path: Path) -> None:
    """Write rows as Parquet, one directory for each day of the table's time."""
    from pyspark.sql import functions as f

    dated = frame.select(*with_load(table).names).withColumn(
        "date", f.coalesce(f.to_date(table.time), f.lit("1970-01-01").cast("date"))
    )
    dated.write.partitionBy("date").mode("overwrite").option("compression", "zstd").parquet(str(path))
