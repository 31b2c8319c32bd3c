"""Refreshing a lake bit by bit: the same rows as from all of it at once, in any order of landing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import lib as pa
from pyarrow.parquet import write_table
from tests.spark.test_lake_tables import at, commit, marker, rows
from tests.spark.test_lake_whatif import SETTINGS
from tests.unit.lake.recorded_lives import landed_rows
from tests.unit.lake.test_folds import ID, SUBSCRIBED, current, record

from kohort.lake import schemas
from kohort.lake.manifest import FANOUT, Manifest, TablePart
from kohort.lake.refresh import FEW_ROWS, refresh
from kohort.lake.store import Lake, LakeError, with_load
from kohort.lake.whatif.lives import make_life
from kohort.spark.pipelines.parquet import read_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
Landed = dict[schemas.TableInfo, list[dict[str, Any]]]


def land(lake: Lake, landed: Landed) -> Manifest:
    """One load of these rows; without Spark, which takes its time for each table."""
    from pyspark.sql.pandas.types import to_arrow_schema

    before = lake.manifest()
    step = before.step + 1
    for table, those in landed.items():
        schema = to_arrow_schema(with_load(table), timezone="UTC")
        target = lake.stage(table.name, step) / "date=2026-01-01"
        target.mkdir(parents=True)
        made = pa.Table.from_pylist(
            [{**dict.fromkeys(schema.names), **row, "load": step} for row in those], schema
        )
        write_table(made, target / "rows.parquet")  # type: ignore[no-untyped-call]  # pyarrow has no types yet
    return lake.commit(before, replace(before, step=step, names={ID: "t"}))


def tables_of(lake: Lake) -> dict[str, list[str]]:
    """The rows of all derived tables."""
    found: dict[str, list[str]] = {table.name: [] for table in schemas.DERIVED}
    parts = lake.manifest().parts
    for table in schemas.DERIVED:
        for part in parts.get(table.name, ()):
            for path in (lake.root / table.name / part.directory).rglob("*.parquet"):
                found[table.name] += map(str, read_columns(path, table.columns).to_pylist())
    return {name: sorted(those) for name, those in found.items()}


def end(seconds: float, log_end: int, topic: str = "t") -> dict[str, Any]:
    return {"ts": at(seconds), "topic": topic, "partition": 0, "log_start": 0, "log_end": log_end}


def modern(kind: str, details: object, number: int, member: str | None = None) -> dict[str, Any]:
    """A record of a consumer group, in a partition of its own."""
    made = record(f"consumer_group_{kind}", details, number, member) | {"group_id": "modern"}
    return made | {"ts": at(number), "src_partition": 1}


def loads() -> Iterator[Landed]:
    """Three loads in which everything is cut in two: transactions, groups, samples, rebalances."""
    records, journal = landed_rows(make_life(3, SETTINGS, hours=6, seats=3), SETTINGS, 1)
    for row in (*records, *journal):
        row["ts"] = at(row["ts"] / 1_000)
    cuts = [len(records) * part // 3 for part in range(4)]
    told = [len(journal) * part // 3 for part in range(4)]
    of_groups: list[list[dict[str, Any]]] = [
        [
            modern("member_metadata", SUBSCRIBED, 1, "m"),
            modern("metadata", {"epoch": 1}, 2),
            modern("target_assignment_metadata", {"assignmentEpoch": 1}, 3),
        ],
        [modern("current_member_assignment", current(1, [0]), 14, "m"), modern("metadata", {"epoch": 2}, 15)],
        [
            modern("current_member_assignment", None, 24, "m"),
            modern("member_metadata", None, 25, "m"),
            modern("metadata", None, 26),
        ],
    ]
    commits: list[list[dict[str, Any]]] = [
        [commit(0, 5, 1), commit(1, 7, 2, producer_id=9), commit(2, 3, 3, topic="u")],
        [
            marker(3, 9, "COMMIT"),
            commit(4, 6, 9),
            commit(5, 9, 12, producer_id=9),
        ],  # landed after the sample of the second before it
        [commit(7, 4, 23, topic="u", tombstone=True), marker(8, 9, "ABORT"), commit(9, 20, 25)],
    ]
    for number in range(3):
        second = 10 * number
        yield {
            schemas.RECORDS: [
                *(one | {"src_partition": 2} for one in records[cuts[number] : cuts[number + 1]]),
                *of_groups[number],
                *(one | {"src_partition": 3} for one in commits[number]),
            ],
            schemas.JOURNAL: journal[told[number] : told[number + 1]],
            schemas.LOG_ENDS: [
                end(second + each, 10 + second + each, topic) for each in (5, 10) for topic in "tu"
            ],
        }


def test_loads_one_by_one_and_all_at_once_give_the_same_tables(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        for landed in loads():
            land(lake, landed)
            counts = refresh(spark, lake)
        bit_by_bit, before = tables_of(lake), lake.manifest()
        assert counts == {name: len(those) for name, those in bit_by_bit.items()}
        assert min(counts[name] for name in counts if name != "findings") > 4
        assert refresh(spark, lake) == counts  # nothing is new
        assert lake.manifest() == before
        assert refresh(spark, lake, rebuild=True) == counts
        assert tables_of(lake) == bit_by_bit


def test_a_refresh_that_fails_leaves_the_settings_of_the_session_as_they_were(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings() -> dict[str, str | None]:
        return {name: spark.conf.get(name, None) for name in FEW_ROWS}

    def fail(_: object) -> None:
        seen.append(settings())
        raise LakeError("the disk is full")

    seen: list[dict[str, str | None]] = []
    monkeypatch.setattr("kohort.lake.refresh.tables.offset_commits", fail)
    lake = Lake(tmp_path / "lake")
    given = settings()
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.conf.unset("spark.sql.codegen.factoryMode")
    try:
        before = settings()
        with lake.writing():
            land(lake, {schemas.LOG_ENDS: [end(0, 1)]})
            with pytest.raises(LakeError, match="the disk is full"):
                refresh(spark, lake)
        assert (seen, settings()) == ([FEW_ROWS], before)
        assert before["spark.sql.codegen.factoryMode"] != FEW_ROWS["spark.sql.codegen.factoryMode"]
    finally:
        for name, value in given.items():
            spark.conf.set(name, str(value))


def test_many_small_parts_are_merged_and_nothing_is_lost(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        for number in range(FANOUT):
            land(lake, {schemas.LOG_ENDS: [end(number, number)]})
        before = rows(lake.read(spark, schemas.LOG_ENDS))
        lake.merge(spark)
    assert lake.manifest().parts["log_ends"] == [TablePart(FANOUT, 1, FANOUT)]
    assert rows(lake.read(spark, schemas.LOG_ENDS)) == before


def test_the_tables_that_sql_sees_are_of_one_step(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        first = land(lake, {schemas.LOG_ENDS: [end(0, 1)]})
        second = land(lake, {schemas.LOG_ENDS: [end(1, 2)]})
    steps = iter([first])
    monkeypatch.setattr(lake, "manifest", lambda: next(steps, second))
    lake.views(spark)
    assert spark.sql("select log_end from log_ends").collect() == [(1,)]
