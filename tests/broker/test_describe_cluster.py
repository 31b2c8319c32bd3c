"""DescribeCluster and the other questions about the whole: brokers, log directories, reassignments.

What Kafka answers in every version is recorded: ``tests/interop/scripts/cluster.py``.
"""

from pathlib import Path

import pytest
from tests.broker.asking import append, batch, create, metadata
from tests.broker.raw import Raw, Reply

from kohort.testing.broker import Broker
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest

# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_the_one_metadata_tells_of(raw: Raw, broker: Broker, version: int) -> None:
    known = metadata(raw)
    reply = raw.send(DescribeClusterRequest(), version)
    assert (reply.error_code, reply.error_message, reply.endpoint_type) == (0, None, 1)
    assert (reply.cluster_id, reply.controller_id) == (known.cluster_id, known.controller_id)
    (only,) = reply.brokers
    assert (only.broker_id, f"{only.host}:{only.port}") == (known.brokers[0].node_id, broker.bootstrap)
    assert (only.rack, only.is_fenced) == (None, False)


# DescribeLogDirs


def sizes(result: Reply) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_size
        for topic in result.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 5))
def test_null_means_every_partition_with_its_size(raw: Raw, version: int) -> None:
    create(raw, "t", 2)
    append(raw, "t", batch("a"))
    reply = raw.send(DescribeLogDirsRequest(topics=None), version)
    (result,) = reply.results
    assert (reply.error_code, result.error_code) == (0, 0)
    assert sizes(result) == {("t", 0): len(batch("a")), ("t", 1): 0}
    assert Path(result.log_dir).is_absolute()
    for topic in result.topics:
        assert all((each.offset_lag, each.is_future_key) == (0, False) for each in topic.partitions)


def test_a_directory_tells_its_path_and_the_room_on_its_volume(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, Raw(broker.bootstrap) as raw:
        (result,) = raw.send(DescribeLogDirsRequest(topics=None), 4).results
    assert result.log_dir == str(tmp_path.resolve())
    assert result.total_bytes >= result.usable_bytes > 0


def test_memory_has_no_volume(raw: Raw) -> None:
    (result,) = raw.send(DescribeLogDirsRequest(topics=None), 4).results
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)
