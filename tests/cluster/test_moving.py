"""``kohort.testing.Cluster``, for people who test failover: nodes are added and drained, partitions move."""

import pytest

from kohort.testing.cluster import Cluster

pytestmark = pytest.mark.slow


def test_a_partition_and_a_coordinator_move_to_a_new_node_and_go_when_it_is_drained(cluster_url: str) -> None:
    with Cluster(1, url=cluster_url) as cluster:
        (first,) = cluster.nodes
        cluster.create_topic("orders", partitions=2)
        assert cluster.coordinator("billing") is first
        second = cluster.add_node()
        assert cluster.living() == {first.node_id, second.node_id}

        assert cluster.move("orders", 1) is second
        assert cluster.move_coordinator("billing") is second

        assert [cluster.leader("orders", each) for each in (0, 1)] == [first, second]
        assert cluster.coordinator("billing") is second
        cluster.drain(second)
        assert cluster.leader("orders", 1) is first
        assert cluster.coordinator("billing") is first
        assert second.is_running
        second.stop()
        assert cluster.living() == {first.node_id}
