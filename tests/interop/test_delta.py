"""Delta's own code reads what Kohort writes: the tables of an archive and of a lake, as of any version."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.conftest import need
from tests.spark.test_lake_refresh import land as land_in_lake
from tests.spark.test_lake_refresh import loads, rows
from tests.unit.spark.pipelines.test_delta_log import land
from tools.peers.pins import Peer

from kohort.lake import schemas
from kohort.lake.refresh import refresh
from kohort.lake.store import Lake
from kohort.spark.pipelines.compaction import Sizes, compact
from kohort.spark.pipelines.delta_log import CHECKPOINT_EVERY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]


@pytest.fixture(scope="module", autouse=True)
def delta_can_be_had() -> None:
    need(Peer.DELTA)


def read(spark: "SparkSession", table: Path, version: int | None = None) -> "DataFrame":
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(str(table))


def test_an_archive_is_read_with_columns_that_came_later_after_merges_and_checkpoints(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from pyarrow import lib as pa

    count = CHECKPOINT_EVERY + 5
    for number in range(count):
        value = {"id": number} | ({} if number < 10 else {"item": {"name": "pen"}})
        table = land(tmp_path, number, date=f"2026-01-{1 + number % 3:02}", value=pa.array([value]))
    orders = tmp_path / "orders"
    wanted = [(number, number, None if number < 10 else "pen") for number in range(count)]
    before = read(spark, orders)
    assert rows(before.select("offset", "value.id", "value.item.name")) == wanted
    assert rows(before.where("date = '2026-01-02'").selectExpr("count(*)")) == [(count // 3,)]
    assert read(spark, orders, CHECKPOINT_EVERY + 1).count() == CHECKPOINT_EVERY + 2
    compact([table], tmp_path, Sizes(least=2), lambda: True)
    assert rows(read(spark, orders).select("offset", "value.id", "value.item.name")) == wanted


def test_every_table_of_a_lake_is_read_as_kohort_reads_it(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing(is_delta=True):
        for landed in loads():
            land_in_lake(lake, landed)
            refresh(spark, lake)
        for table in schemas.TABLES.values():
            theirs = read(spark, lake.root / table.name).select(*table.columns)
            ours = lake.read(spark, table)
            assert theirs.schema == ours.schema
            assert sorted(map(str, theirs.collect())) == sorted(map(str, ours.collect()))
        assert len(read(spark, lake.root / "rebalances", 0).collect()) > 0


def test_delta_itself_does_not_write_to_such_a_table(spark: "SparkSession", tmp_path: Path) -> None:
    land(tmp_path, 0)
    table = tmp_path / "orders"
    with pytest.raises(Exception, match="kohortLedger"):
        read(spark, table).write.format("delta").mode("append").save(str(table))
    assert read(spark, table).count() == 1
