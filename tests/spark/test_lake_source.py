"""``.format("kohort_offsets")``: what groups stored, as a table, from a broker and from its files."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kohort import Consumer, Producer
from kohort.lake.schemas import RECORDS
from kohort.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.slow
OFFSETS = "kohort_offsets"
KEY = ("src_partition", "src_offset")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    """A broker with files whose group "billing" has consumed ten records of a topic."""
    data = tmp_path_factory.mktemp("data")
    with Broker(configs={"num.partitions": 2}, data=data) as started:
        with Producer(bootstrap_servers=started.bootstrap) as producer:
            for number in range(10):
                producer.send("orders", b"%d" % number, partition=number % 2)
        with Consumer(
            "orders", bootstrap_servers=started.bootstrap, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            seen = 0
            while seen < 10:
                seen += sum(map(len, consumer.poll(1_000).values()))
            consumer.commit()
        yield started, data


def commits(frame: "DataFrame") -> dict[int, int]:
    rows = (
        frame.where("kind = 'offset_commit' and not tombstone")
        .orderBy("src_partition", "src_offset")
        .collect()
    )
    assert {(row.group_id, row.topic) for row in rows} == {("billing", "orders")}
    return {row.partition: row.committed for row in rows}


def test_a_broker_and_its_files_give_the_same_rows(
    spark: "SparkSession", broker: tuple[Broker, Path]
) -> None:
    started, data = broker
    live = spark.read.format(OFFSETS).option("kafka.bootstrap.servers", started.bootstrap).load()
    assert live.columns == RECORDS.columns
    assert commits(live) == {0: 5, 1: 5}
    files = spark.read.format(OFFSETS).load(str(data))
    assert files.orderBy(*KEY).collect() == live.orderBy(*KEY).collect()


def test_a_stream_gives_the_rows_that_a_batch_gives(
    spark: "SparkSession", broker: tuple[Broker, Path], tmp_path: Path
) -> None:
    where = {"kafka.bootstrap.servers": broker[0].bootstrap, "startingOffsets": "earliest"}
    found: list[Row] = []
    query = (
        spark.readStream.format(OFFSETS)
        .options(**where)
        .load()
        .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    at_once = spark.read.format(OFFSETS).options(**where).load().orderBy(*KEY).collect()
    assert sorted(found, key=lambda row: (row.src_partition, row.src_offset)) == at_once
    assert len(at_once) > 3
