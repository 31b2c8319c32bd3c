"""delta-rs, which is no code of ours and needs no Spark, reads the tables of an archive and of a lake."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.conftest import need
from tests.spark.test_lake_refresh import land as land_in_lake
from tests.spark.test_lake_refresh import loads
from tests.unit.spark.pipelines.test_delta_log import land
from tools.peers.fetch import python_packages
from tools.peers.pins import Peer

from kohort.lake import schemas
from kohort.lake.refresh import refresh
from kohort.lake.store import Lake
from kohort.spark.pipelines.compaction import Sizes, compact
from kohort.spark.pipelines.delta_log import CHECKPOINT_EVERY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

ASK = """
import json
import sys

import pyarrow
from deltalake import DeltaTable, QueryBuilder

for line in sys.stdin:
    path, version, sql = json.loads(line)
    table = DeltaTable(path, version=version)
    rows = pyarrow.table(QueryBuilder().register("t", table).execute(sql).read_all()).to_pylist()
    print(json.dumps([list(map(str, row.values())) for row in rows]))
"""
APPEND = """
import sys

import pyarrow
from deltalake import write_deltalake

write_deltalake(sys.argv[1], pyarrow.table({"partition": pyarrow.array([1], pyarrow.int32())}), mode="append")
"""
Question = tuple[Path, int | None, str]


@pytest.fixture(scope="module", autouse=True)
def packages() -> Path:
    need(Peer.DELTA_RS)
    return python_packages(Peer.DELTA_RS)


def python(
    packages: Path, program: str, *arguments: str, asked: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(packages)},
        timeout=120,
    )


def answers(packages: Path, questions: list[Question]) -> list[list[list[str]]]:
    """What delta-rs answers to each, as text, in one process."""
    lines = [json.dumps((str(path), version, sql)) for path, version, sql in questions]
    done = python(packages, ASK, asked="\n".join(lines))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_archive_is_read_with_columns_that_came_later_behind_checkpoints_and_merges(
    packages: Path, tmp_path: Path
) -> None:
    from pyarrow import lib as pa

    count, late = CHECKPOINT_EVERY + 5, 10
    for number in range(count):
        value = {"id": number} | ({} if number < late else {"item": {"name": "pen"}})
        table = land(tmp_path, number, date=f"2026-01-{1 + number % 3:02}", value=pa.array([value]))
    orders = tmp_path / "orders"
    everything = """select "offset", value['id'], value['item']['name'] from t order by "offset" """
    wanted = [[str(one), str(one), "None" if one < late else "pen"] for one in range(count)]
    questions: list[Question] = [
        (orders, None, everything),
        (orders, CHECKPOINT_EVERY + 1, "select count(*) from t"),
        (orders, None, "select date, count(*) from t where date > '2026-01-02' group by date"),
    ]
    assert answers(packages, questions) == [
        wanted,
        [[str(CHECKPOINT_EVERY + 2)]],
        [["2026-01-03", str(count // 3)]],
    ]
    compact([table], tmp_path, Sizes(least=2), lambda: True)
    assert len(list(orders.rglob("*.parquet"))) == 3 + 1, "a file for each day, and a checkpoint"
    assert answers(packages, [(orders, None, everything)]) == [wanted]


def test_every_table_of_a_lake_has_the_rows_that_kohort_reads(
    spark: "SparkSession", packages: Path, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing(is_delta=True):
        for landed in loads():
            land_in_lake(lake, landed)
        refresh(spark, lake)
        ours = {name: lake.manifest().rows(name) for name in schemas.TABLES}
        questions: list[Question] = [
            (lake.root / name, None, f"select count(*), count(distinct {table.columns[0]}) from t")
            for name, table in schemas.TABLES.items()
            if ours[name]
        ]
        read = answers(packages, questions)
    assert [int(rows[0][0]) for rows in read] == [count for count in ours.values() if count]
    assert len(read) >= len(schemas.TABLES) - 1


def test_delta_rs_does_not_write_to_such_a_table(packages: Path, tmp_path: Path) -> None:
    land(tmp_path, 0)
    orders = tmp_path / "orders"
    done = python(packages, APPEND, str(orders))
    assert done.returncode != 0
    assert "kohortLedger" in done.stderr
    assert answers(packages, [(orders, None, "select count(*) from t")]) == [[["1"]]]
