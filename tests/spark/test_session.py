"""The session that notebooks and tests get."""

from typing import TYPE_CHECKING

import pytest

import kohort.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_a_session_runs_sql_and_python_in_utc(spark: "SparkSession") -> None:
    rows = spark.range(3).mapInArrow(lambda batches: batches, "id bigint").collect()
    assert [row.id for row in rows] == [0, 1, 2]
    assert spark.sql("select current_timezone() as zone").collect()[0].zone == "UTC"


@pytest.mark.slow
def test_asking_again_gives_the_running_session(spark: "SparkSession") -> None:
    assert kohort.spark.session() is spark


@pytest.mark.slow
def test_asking_again_leaves_the_settings_of_the_running_session_alone(spark: "SparkSession") -> None:
    kohort.spark.session("again", conf={"spark.sql.ansi.enabled": "true"})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"
