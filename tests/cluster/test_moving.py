"""``kohort.testing.Cluster``, for people who test failover: nodes are added and drained, partitions move."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `tests` is no installed package
    sys.path.insert(0, str(ROOT))

from tests.clients.waiting import eventually  # noqa: E402 (needs the path above)

from kohort.testing.cluster import Cluster, ClusterNode  # noqa: E402 (same)

pytestmark = pytest.mark.slow


def test_a_partition_and_a_coordinator_move_to_a_new_node_and_go_when_it_is_drained(cluster_url: str) -> None:
    with Cluster(1, url=cluster_url) as cluster:
        (first,) = cluster.nodes
        cluster.create_topic("orders", partitions=2)
        assert cluster.coordinator("billing") is first
        second = cluster.add_node()
        everyone = {first.node_id, second.node_id}
        eventually("the first node to know the second", lambda: cluster.living() == everyone)

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


def test_a_node_that_waits_for_its_number_says_what_to_do_and_can_be_stopped(cluster_url: str) -> None:
    with Cluster(1, url=cluster_url) as cluster, ExitStack() as stack:
        (first,) = cluster.nodes
        waiting = ClusterNode(first.node_id, cluster_url, {}, None)
        stack.push(waiting.__exit__)
        waiting.begin()
        eventually("the node to wait", lambda: "start this one with another --node-id" in waiting.said())

        waiting.stop()

        assert "Traceback" not in waiting.said()
        assert cluster.living() == {first.node_id}
