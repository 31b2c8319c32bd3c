"""DescribeCluster and the other questions about the whole: brokers, log directories, reassignments."""

from pathlib import Path

import pytest
from tests.broker.asking import append, batch, create, metadata
from tests.broker.raw import Raw, Reply

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kohort.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

MIN = -(2**31)


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


def test_operations_are_told_when_asked_for(raw: Raw) -> None:
    assert raw.send(DescribeClusterRequest(), 1).cluster_authorized_operations == MIN
    asking = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert raw.send(asking, 1).cluster_authorized_operations == 8096


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (-1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_only_brokers_can_be_asked_for(raw: Raw, version: int, kind: int, code: int) -> None:
    reply = raw.send(DescribeClusterRequest(endpoint_type=kind), version)
    assert reply.error_code == code
    assert reply.error_message
    assert reply.brokers == []


def test_fenced_brokers_may_be_included_and_there_are_none(raw: Raw) -> None:
    assert len(raw.send(DescribeClusterRequest(include_fenced_brokers=True), 2).brokers) == 1


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


def test_only_what_is_asked_for_and_exists_is_listed(raw: Raw) -> None:
    create(raw, "t", 3)
    wanted = [
        DescribableLogDirTopic(topic="t", partitions=[2, 9, -1, 0]),
        DescribableLogDirTopic(topic="none", partitions=[0]),
    ]
    (result,) = raw.send(DescribeLogDirsRequest(topics=wanted), 4).results
    assert set(sizes(result)) == {("t", 2), ("t", 0)}


def test_an_empty_list_means_nothing(raw: Raw) -> None:
    create(raw, "t")
    (result,) = raw.send(DescribeLogDirsRequest(topics=[]), 4).results
    assert result.topics == []


def test_a_directory_tells_its_path_and_the_room_on_its_volume(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, Raw(broker.bootstrap) as raw:
        (result,) = raw.send(DescribeLogDirsRequest(topics=None), 4).results
    assert result.log_dir == str(tmp_path.resolve())
    assert result.total_bytes >= result.usable_bytes > 0


def test_memory_has_no_volume(raw: Raw) -> None:
    (result,) = raw.send(DescribeLogDirsRequest(topics=None), 4).results
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)


# ListPartitionReassignments


@pytest.mark.parametrize("partitions", [None, [0], [0, 7]])
def test_nothing_is_ever_being_reassigned(raw: Raw, partitions: list[int] | None) -> None:
    create(raw, "t")
    wanted = None
    if partitions is not None:
        wanted = [ListPartitionReassignmentsTopics(name="t", partition_indexes=partitions)]
    reply = raw.send(ListPartitionReassignmentsRequest(topics=wanted), 0)
    assert (reply.error_code, reply.error_message, reply.topics) == (0, None, [])
