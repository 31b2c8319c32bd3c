"""Keep the derived tables up to date: what is new is added; little is kept from one refresh to the next.

A refresh reads the loads that it does not know yet and the *carry* of the one before: open transactions, the
newest record of each key of a group, the newest commit of each partition, the last nine samples. Commits,
snapshots and lag are added to. Rebalances, sessions and findings, which are few, are made again for the
groups in which something happened. A rebuild is one refresh without a carry, so both give the same rows.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kohort.lake import schemas, tables
from kohort.lake.manifest import Manifest
from kohort.lake.store import LOAD, Lake, no_rows, with_load, write_dated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RULES: Final = 4
"""Change it when a rule behind a derived table or the carry changes: lakes then make their tables again."""

FEW: Final = 100_000
"""Rows that land between two refreshes, up to which Spark's preparations cost more than its work."""

FEW_ROWS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # A third of the time went into compiling code that a few thousand rows ran through once.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class _Carry(NamedTuple):
    """What is known from before; without rows the first time."""

    records: "DataFrame"
    positions: "DataFrame"
    snapshots: "DataFrame"
    ends: "DataFrame"
    samples: "DataFrame"


def refresh(spark: "SparkSession", lake: Lake, *, rebuild: bool = False) -> dict[str, int]:
    """Bring the derived tables up to the last load; the number of rows of each.

    ``rebuild``: make them again from all that has landed. That also happens when a load belongs before what
    they have, or when they were made by other rules.
    """
    found = lake.manifest()
    rebuild = rebuild or found.rules != RULES or found.is_out_of_order or not found.carry
    if rebuild:
        found = replace(found, refreshed=0, carry=0, unnamed=[])
    if rebuild or any(found.fresh(table.name) for table in schemas.LANDED):
        fresh = sum(part.rows for table in schemas.LANDED for part in found.fresh(table.name))
        with _set(spark, FEW_ROWS if fresh <= FEW else {}):
            _Refresh(spark, lake, found).run(rebuild)
        lake.merge(spark)
    done = lake.manifest()
    return {table.name: done.rows(table.name) for table in schemas.DERIVED}


class _Refresh:
    """One refresh, as step ``manifest.step + 1`` of the lake."""

    def __init__(self, spark: "SparkSession", lake: Lake, manifest: Manifest) -> None:
        self._spark, self._lake, self._manifest = spark, lake, manifest
        self._step = manifest.step + 1
        self._carry = _read_carry(spark, lake, manifest)

    def run(self, rebuild: bool) -> None:
        records = self._fresh(schemas.RECORDS).unionByName(self._carry.records)
        made = tables.group_snapshots(records, self._manifest.names, self._manifest.refreshed)
        commits, snapshots = _together(
            lambda: self._added(schemas.OFFSET_COMMITS, tables.offset_commits(records)),
            lambda: self._added(schemas.GROUP_SNAPSHOTS, made),
        )
        carried = tables.undecided(records).unionByName(tables.of_groups(records))
        touched, unnamed, _ = _together(
            lambda: self._rebalances(snapshots, rebuild),
            lambda: self._unnamed(snapshots),
            lambda: self._lag(commits, snapshots, carried),
        )
        after = replace(
            self._manifest,
            step=self._step,
            refreshed=self._manifest.step,
            carry=self._step,
            rules=RULES,
            judged_partitions=self._manifest.partitions,
            is_out_of_order=False,
            unnamed=sorted({*self._manifest.unnamed, *unnamed}),
        )
        replaced = [table.name for table in (schemas.DERIVED if rebuild else _REPLACED if touched else ())]
        self._lake.commit(self._manifest, after, replaced=replaced)

    def _lag(self, commits: "DataFrame", snapshots: "DataFrame", records: "DataFrame") -> None:
        """Add samples and verdicts; leave what the next refresh begins with, these ``records``, too."""
        carry = self._carry
        known = commits.unionByName(carry.positions)
        history = snapshots.unionByName(carry.snapshots)
        with (
            _once(tables.time_lags(known, self._fresh(schemas.LOG_ENDS), carry.ends)) as timed,
            _once(tables.judged(tables.lag_samples(timed, history), carry.samples)) as verdicts,
        ):
            self._add(schemas.LAG_SAMPLES, verdicts.where("is_new"))
            self._add(schemas.LAG_STATUS, tables.lag_status(verdicts))
            self._leave(
                records=records,
                positions=tables.positions(known),
                snapshots=tables.newest_snapshots(history),
                ends=tables.ends_carry(timed),
                samples=tables.samples_carry(verdicts),
            )

    def _rebalances(self, snapshots: "DataFrame", rebuild: bool) -> bool:
        """Derive rebalances, sessions and findings of the touched groups again; False if there are none."""
        journal = self._all(schemas.JOURNAL)
        history = self._earlier(schemas.GROUP_SNAPSHOTS, rebuild).unionByName(snapshots)
        touched: Column | None = None
        if not rebuild and self._manifest.partitions == self._manifest.judged_partitions:
            fresh = self._fresh(schemas.JOURNAL).select("group_id").unionByName(snapshots.select("group_id"))
            names = [row.group_id for row in fresh.distinct().collect()]
            if not names:
                return False
            if None not in names:  # a gap of the journal may concern every group
                touched = f.col("group_id").isin(names)
                journal, history = journal.where(touched | f.col("group_id").isNull()), history.where(touched)
        with _once(tables.stories(history, journal, self._manifest.partitions)) as stories:
            self._put(schemas.REBALANCES, tables.rebalances(stories), touched)
            self._put(schemas.MEMBER_SESSIONS, tables.member_sessions(stories), touched)
            self._put(schemas.FINDINGS, tables.findings(stories), touched)
        return True

    def _put(self, table: schemas.TableInfo, made: "DataFrame", touched: "Column | None") -> None:
        """Stage these rows and those of groups that were not touched."""
        made = made.withColumn(LOAD, f.lit(self._step))
        if touched is not None:
            made = made.unionByName(self._earlier(table, rebuild=False).where(~touched))
        self._add(table, made)

    # --- where rows come from and go to -------------------------------------------------------

    def _fresh(self, table: schemas.TableInfo) -> "DataFrame":
        return self._lake.read(self._spark, table, self._manifest.fresh(table.name))

    def _all(self, table: schemas.TableInfo) -> "DataFrame":
        return self._lake.read(self._spark, table, self._manifest.parts.get(table.name, []))

    def _earlier(self, table: schemas.TableInfo, rebuild: bool) -> "DataFrame":
        parts = [] if rebuild else self._manifest.parts.get(table.name, [])
        return self._lake.read(self._spark, table, parts)

    def _add(self, table: schemas.TableInfo, frame: "DataFrame") -> None:
        write_dated(frame, table, self._lake.stage(table.name, self._step))

    def _added(self, table: schemas.TableInfo, frame: "DataFrame") -> "DataFrame":
        """The rows as they are staged: what is made of them does not make them again."""
        self._add(table, frame)
        return self._lake.staged(self._spark, table, self._step)

    def _leave(self, **frames: "DataFrame") -> None:
        """Write all of these in one job: rows of one table, each with its columns in a column of its own."""
        rows = [frame.select(f.struct(*frame.columns).alias(name)) for name, frame in frames.items()]
        united = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), rows)
        united.coalesce(1).write.parquet(str(self._lake.stage_carry(self._step)))

    def _unnamed(self, snapshots: "DataFrame") -> list[str]:
        """Topics of consumer groups that the snapshots have under their ids."""
        modern = snapshots.where("group_type = 'consumer'").select(
            f.explode("members.assigned").alias("some")
        )
        topics = modern.select(f.explode("some.topic").alias("topic")).distinct().collect()
        return [row.topic for row in topics if row.topic not in self._manifest.names.values()]


@contextmanager
def _set(spark: "SparkSession", conf: Mapping[str, str]) -> "Iterator[None]":
    """These settings of the session, for a while."""
    before = {name: spark.conf.get(name, None) for name in conf}
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)


def _together(*steps: Callable[[], Any]) -> list[Any]:
    """Run these at the same time: one is planned while the tasks of another run. Their results, in order."""
    with ThreadPoolExecutor(len(steps)) as threads:
        return [step.result() for step in [threads.submit(step) for step in steps]]


@contextmanager
def _once(frame: "DataFrame") -> "Iterator[DataFrame]":
    """The frame, made once however many tables are made of it."""
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


_REPLACED: Final = (schemas.REBALANCES, schemas.MEMBER_SESSIONS, schemas.FINDINGS)


def _read_carry(spark: "SparkSession", lake: Lake, manifest: Manifest) -> _Carry:
    judged = with_load(schemas.LAG_SAMPLES).add("status", "string").add("since", "timestamp")
    kinds: dict[str, StructType | str] = {
        "records": with_load(schemas.RECORDS),
        "positions": with_load(schemas.OFFSET_COMMITS),
        "snapshots": with_load(schemas.GROUP_SNAPSHOTS),
        "ends": tables.SEEN,
        "samples": judged,
    }
    if not manifest.carry:
        return _Carry(*(no_rows(spark, kind) for kind in kinds.values()))
    whole = StructType()
    for name, kind in kinds.items():
        whole.add(name, StructType.fromDDL(kind) if isinstance(kind, str) else kind)
    rows = spark.read.schema(whole).parquet(str(lake.carried(manifest)))
    return _Carry(*(rows.where(f.col(name).isNotNull()).select(f"{name}.*") for name in kinds))
