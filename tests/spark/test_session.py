"""The session that notebooks and tests get."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import kohort.spark

if TYPE_CHECKING:
    from pyarrow import lib as pa
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_a_session_runs_sql_and_python_in_utc(spark: "SparkSession") -> None:
    rows = spark.range(3).mapInArrow(lambda batches: batches, "id bigint").collect()
    assert [row.id for row in rows] == [0, 1, 2]
    assert spark.sql("select current_timezone() as zone").collect()[0].zone == "UTC"


@pytest.mark.slow
def test_asking_again_leaves_the_settings_of_the_running_session_alone(spark: "SparkSession") -> None:
    kohort.spark.session("again", conf={"spark.sql.ansi.enabled": "true"})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"


@pytest.mark.slow
def test_workers_are_started_and_loaded_before_they_are_needed(spark: "SparkSession") -> None:
    def loaded(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import sys

        is_loaded = "kohort.spark.tasks" in sys.modules
        yield from (batch if is_loaded else batch.slice(0, 0) for batch in batches)

    kohort.spark.warm_up(spark)
    assert spark.range(0, 1, 1, 1).mapInArrow(loaded, "id bigint").count() == 1
