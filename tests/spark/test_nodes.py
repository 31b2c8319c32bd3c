"""A query in a group on three nodes that share a PostgreSQL: its coordinator dies, no record is missed."""

import pytest
from tests.spark.group_stage import Driven, all_offsets, group_reader, run

from kohort.client.admin import Admin
from kohort.client.producer import Producer
from kohort.spark.offsets import topic_partition
from kohort.testing.cluster import Cluster

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
