"""Keep the derived tables up to date: what is new is added; little is kept from one refresh to the next.

A refresh reads the loads that it does not know yet and the *carry* of the one before: open transactions, the
newest record of each key of a group, the newest commit of each partition, the last nine samples. Commits,
snapshots and lag are added to. Rebalances, sessions and findings, which are few, are made again for the
groups in which something happened. A rebuild is one refresh without a carry, so both give the same rows.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f

from kohort.lake import schemas, tables
from kohort.lake.manifest import Manifest
from kohort.lake.status import samples_carry
from kohort.lake.store import LOAD, Lake, with_load, write_dated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

RULES: Final = 1
"""Change it when a rule behind a derived table changes: lakes then make their tables again."""


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
        commits = self._add(schemas.OFFSET_COMMITS, tables.offset_commits(records))
        snapshots = self._add(
            schemas.GROUP_SNAPSHOTS,
            tables.group_snapshots(records, self._manifest.names, self._manifest.refreshed),
        )
        self._leave("records", tables.undecided(records).unionByName(tables.of_groups(records)))
        self._lag(commits, snapshots)
        touched = self._rebalances(snapshots, rebuild)
        after = replace(
            self._manifest,
            step=self._step,
            refreshed=self._manifest.step,
            carry=self._step,
            rules=RULES,
            is_out_of_order=False,
            unnamed=sorted({*self._manifest.unnamed, *self._unnamed(snapshots)}),
        )
        replaced = [table.name for table in (schemas.DERIVED if rebuild else _REPLACED if touched else ())]
        self._lake.commit(self._manifest, after, replaced=replaced)

    def _lag(self, commits: "DataFrame", snapshots: "DataFrame") -> None:
        ends, carry = self._fresh(schemas.LOG_ENDS), self._carry
        known = commits.unionByName(carry.positions)
        told = snapshots.unionByName(carry.snapshots)
        samples = self._add(schemas.LAG_SAMPLES, tables.lag_samples(known, ends, told, carry.ends))
        status = self._add(schemas.LAG_STATUS, tables.lag_status(samples, carry.samples))
        self._leave("positions", tables.positions(known))
        self._leave("snapshots", tables.newest_snapshots(told))
        self._leave("ends", tables.ends_carry(ends, carry.ends))
        self._leave("samples", samples_carry(samples, status, carry.samples))

    def _rebalances(self, snapshots: "DataFrame", rebuild: bool) -> bool:
        """Make what is told of the touched groups again; False if there are none."""
        journal = self._all(schemas.JOURNAL)
        told = self._earlier(schemas.GROUP_SNAPSHOTS, rebuild).unionByName(snapshots)
        touched: Column | None = None
        if not rebuild:
            fresh = self._fresh(schemas.JOURNAL).select("group_id").unionByName(snapshots.select("group_id"))
            names = [row.group_id for row in fresh.distinct().collect()]
            if not names:
                return False
            if None not in names:  # a gap of the journal may concern every group
                touched = f.col("group_id").isin(names)
                journal, told = journal.where(touched | f.col("group_id").isNull()), told.where(touched)
        load = f.lit(self._step).alias(LOAD)
        rebalances = tables.rebalances(told, journal).select("*", load)
        sessions = tables.member_sessions(told, journal).select("*", load)
        rebalances = self._put(schemas.REBALANCES, rebalances, touched)
        sessions = self._put(schemas.MEMBER_SESSIONS, sessions, touched)
        findings = tables.findings(rebalances, sessions, told).select("*", load)
        self._put(schemas.FINDINGS, findings, touched)
        return True

    def _put(self, table: schemas.TableInfo, made: "DataFrame", touched: "Column | None") -> "DataFrame":
        """Stage these rows and those of groups that were not touched; returns these."""
        if touched is None:
            return self._add(table, made)
        others = self._earlier(table, rebuild=False).where(~touched)
        return self._add(table, made.unionByName(others)).where(touched)

    # --- where rows come from and go to -------------------------------------------------------

    def _fresh(self, table: schemas.TableInfo) -> "DataFrame":
        return self._lake.read(self._spark, table, self._manifest.fresh(table.name))

    def _all(self, table: schemas.TableInfo) -> "DataFrame":
        return self._lake.read(self._spark, table, self._manifest.parts.get(table.name, []))

    def _earlier(self, table: schemas.TableInfo, rebuild: bool) -> "DataFrame":
        parts = [] if rebuild else self._manifest.parts.get(table.name, [])
        return self._lake.read(self._spark, table, parts)

    def _add(self, table: schemas.TableInfo, frame: "DataFrame") -> "DataFrame":
        write_dated(frame, table, self._lake.stage(table.name, self._step))
        return self._lake.staged(self._spark, table, self._step)

    def _leave(self, name: str, frame: "DataFrame") -> None:
        frame.coalesce(1).write.parquet(str(self._lake.stage_carry(name, self._step)))

    def _unnamed(self, snapshots: "DataFrame") -> list[str]:
        """Topics of consumer groups that the snapshots have under their ids."""
        modern = snapshots.where("group_type = 'consumer'").select(
            f.explode("members.assigned").alias("some")
        )
        topics = modern.select(f.explode("some.topic").alias("topic")).distinct().collect()
        return [row.topic for row in topics if row.topic not in self._manifest.names.values()]


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
        return _Carry(*(spark.createDataFrame([], kind) for kind in kinds.values()))
    return _Carry(
        *(spark.read.schema(kind).parquet(str(lake.carried(manifest, name))) for name, kind in kinds.items())
    )
