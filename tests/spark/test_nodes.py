"""Spark on three nodes that share a PostgreSQL: a node dies, no record is missed and none is there twice."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.group_stage import Driven, all_offsets, group_reader, run

from kohort.client.admin import Admin
from kohort.client.producer import Producer
from kohort.spark.offsets import topic_partition
from kohort.spark.pipelines.archive import ArchiveOptions, archive
from kohort.spark.pipelines.status import status
from kohort.testing.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
TOPIC, GROUP = "orders", "billing"
PLACES = [topic_partition(TOPIC, number) for number in range(3)]
QUICK = {
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "kohort.cluster.lease.ms": 1_500,
    "kohort.cluster.renewal.ms": 200,
}


def test_a_query_reads_every_record_though_its_coordinator_dies(cluster_url: str) -> None:
    with Cluster(3, configs=QUICK, url=cluster_url) as cluster:
        cluster.create_topic(TOPIC, partitions=len(PLACES))
        query = Driven(group_reader(cluster.bootstrap, TOPIC, GROUP))
        write(cluster, 5)
        catch_up(cluster, query, 5)

        cluster.coordinator(GROUP).kill()
        write(cluster, 5)

        catch_up(cluster, query, 10)
        query.stop()
        assert sorted(set(query.offsets)) == all_offsets(dict.fromkeys(PLACES, 10))


def test_sink_archive_and_lake_go_on_when_a_node_dies(
    cluster_url: str, spark: "SparkSession", tmp_path: Path
) -> None:
    with Cluster(3, configs=QUICK, url=cluster_url) as cluster:
        cluster.create_topic(TOPIC, partitions=len(PLACES))
        where = {"kafka.bootstrap.servers": cluster.bootstrap}
        options = ArchiveOptions(
            bootstrap=cluster.bootstrap,
            topics=TOPIC,
            to=tmp_path,
            group=GROUP,
            once=True,
            trigger_seconds=0.5,
        )

        def sink_and_archive(first: int, last: int) -> None:
            rows = spark.range(first, last).selectExpr(
                "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
            )
            rows.write.format("kohort").options(**where, topic=TOPIC).mode("append").save()
            archive(options, lambda _event: None, threading.Event(), spark)

        sink_and_archive(0, 100)
        cluster.coordinator(GROUP).kill()
        sink_and_archive(100, 200)

        (table,) = status(tmp_path)
        assert (table.rows, table.missing) == (200, 0)
        found = spark.read.parquet(str(tmp_path / TOPIC)).select("value").collect()
        assert sorted(int(row.value) for row in found) == list(range(200))
        commits = spark.read.format("kohort_offsets").options(**where).load().where("kind = 'offset_commit'")
        last = commits.groupBy("topic", "partition").max("committed").collect()
        assert sum(row["max(committed)"] for row in last) == 200


def write(cluster: Cluster, each: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for place in PLACES:
            for value in range(each):
                producer.send(TOPIC, b"%d" % value, partition=place.partition)
        producer.flush()


def catch_up(cluster: Cluster, query: Driven, each: int) -> None:
    """Until so many records of every partition are read and committed."""
    with Admin(cluster.bootstrap) as admin:

        def is_committed() -> bool:
            found = admin.list_group_offsets(GROUP, PLACES)
            return all(one.offset == each for one in found.values())

        run(query, until=is_committed)
