"""Batch queries in Spark: a topic as a table."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from kohort import Producer
from kohort.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

pytestmark = pytest.mark.slow
TOPIC = "orders"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Six records in two partitions, one a second; one has headers, one neither key nor value."""
    with Broker(configs={"num.partitions": 2}) as started:
        with Producer(bootstrap_servers=started.bootstrap) as producer:
            for number in range(6):
                producer.send(
                    TOPIC,
                    f"v{number}".encode() if number != 4 else None,
                    key=f"k{number}".encode() if number != 4 else None,
                    partition=number % 2,
                    timestamp_ms=1_000 * number,
                    headers=[("source", b"web"), ("empty", None)] if number == 3 else [],
                )
            producer.flush()
        yield started


def table(spark: "SparkSession", broker: Broker, **options: str) -> "DataFrameReader":
    named = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC} | options
    return spark.read.format("kohort").options(**named)


def test_a_topic_is_a_table_with_the_columns_of_sparks_connector(
    spark: "SparkSession", broker: Broker
) -> None:
    frame = table(spark, broker, includeHeaders="true").load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = {(row.partition, row.offset): row for row in frame.collect()}
    assert sorted(rows) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    third = rows[1, 1]
    assert (bytes(third.key), bytes(third.value), third.topic, third.timestampType) == (
        b"k3",
        b"v3",
        TOPIC,
        0,
    )
    assert third.timestamp.astimezone(UTC) == datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert [(one.key, one.value) for one in third.headers] == [("source", bytearray(b"web")), ("empty", None)]
    assert (rows[0, 2].key, rows[0, 2].value, rows[0, 2].headers) == (None, None, None)


def test_a_schema_chooses_columns_and_offsets_choose_rows(spark: "SparkSession", broker: Broker) -> None:
    frame = (
        table(
            spark,
            broker,
            startingOffsets=json.dumps({TOPIC: {"0": 1, "1": -2}}),
            endingOffsets=json.dumps({TOPIC: {"0": -1, "1": 1}}),
        )
        .schema("offset bigint, partition int")
        .load()
    )
    assert frame.columns == ["offset", "partition"]
    assert sorted(tuple(row) for row in frame.collect()) == [(0, 1), (1, 0), (2, 0)]


def test_filters_reach_the_plan_where_spark_allows_it(spark: "SparkSession", broker: Broker) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = (
            table(spark, broker, **{"kohort.push.filters": "true"})
            .load()
            .where("partition = 1 and offset > 0")
        )
        assert frame.rdd.getNumPartitions() == 1
        assert sorted(row.offset for row in frame.collect()) == [1, 2]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_bad_option_says_what_was_meant(spark: "SparkSession", broker: Broker) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        table(spark, broker, startingOffset="earliest").load().collect()
