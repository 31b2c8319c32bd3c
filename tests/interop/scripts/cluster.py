"""The other administrative questions: cluster, partitions, directories, reassignments, elections, logins,
rights, deletion, epochs."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange
from tests.interop.scripts.setting import append, batch, make_topic

from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kohort.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kohort.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest

Steps = Iterator[tuple[str, Answer]]


def describe_cluster(x: Exchange) -> Steps:
    """Every version, with and without operations, endpoint types."""
    for version in range(3):
        yield f"v{version}", x.get(DescribeClusterRequest(), version)
        asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
        yield f"with operations v{version}", x.get(asked, version)
    for kind in (0, 2, 3):
        yield f"endpoint type {kind}", x.get(DescribeClusterRequest(endpoint_type=kind), 1)
    yield "with fenced brokers", x.get(DescribeClusterRequest(include_fenced_brokers=True), 2)


def describe_partitions(x: Exchange) -> Steps:
    """DescribeTopicPartitions: pages, order, cursors that fit and that do not."""
    first, second = "script.pages-a", "script.pages-b"
    make_topic(x, first, 3)
    make_topic(x, second, 2)

    def ask(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Answer:
        start = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
        topics = [TopicRequest(name=name) for name in names]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=start)
        return x.get(request, 0)

    yield "one", ask(first)
    yield "two, given backwards", ask(second, first)
    yield "unknown", ask("script.none")
    yield "known and unknown", ask("script.none", first)
    yield "bad name", ask("no good")
    for limit in (1, 2, 3, 4, 5, 0, -1):
        yield f"limit {limit}", ask(first, second, limit=limit)
    for cursor in ((first, 0), (first, 2), (first, 3), (second, 1), ("script.none", 0), (first, -1)):
        yield f"from {cursor[0]} {cursor[1]}", ask(first, second, cursor=cursor)
    yield "from a topic not asked for", ask(second, cursor=(first, 0))
    yield "a page from the middle", ask(first, second, limit=2, cursor=(first, 2))
    yield "the same twice", ask(first, first)


def log_dirs(x: Exchange) -> Steps:
    """DescribeLogDirs of one topic, of partitions that are not there, of none."""
    name = "script.log-dirs"
    make_topic(x, name, 2)
    append(x, name, batch("a"))

    def ask(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
        return DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=each, partitions=parts) for each, parts in topics]
        )

    for version in range(1, 5):
        yield f"v{version}", x.get(ask((name, [0, 1])), version)
    yield "one partition", x.get(ask((name, [1])), 4)
    yield "unknown partition", x.get(ask((name, [7])), 4)
    yield "unknown topic", x.get(ask(("script.none", [0])), 4)
    yield "no partitions", x.get(ask((name, [])), 4)
    yield "no topics", x.get(ask(), 4)


def reassignments(x: Exchange) -> Steps:
    """ListPartitionReassignments where nothing is ever reassigned."""
    name = "script.reassignments"
    make_topic(x, name)
    yield "all", x.get(ListPartitionReassignmentsRequest(timeout_ms=5000, topics=None), 0)
    yield "none", x.get(ListPartitionReassignmentsRequest(timeout_ms=5000, topics=[]), 0)
    for label, each, parts in (("one", name, [0]), ("unknown", "script.none", [0]), ("beyond", name, [9])):
        topics = [ListPartitionReassignmentsTopics(name=each, partition_indexes=parts)]
        yield label, x.get(ListPartitionReassignmentsRequest(timeout_ms=5000, topics=topics), 0)


def elections(x: Exchange) -> Steps:
    """ElectLeaders where the one broker leads everything already."""
    name = "script.elections"
    make_topic(x, name, 2)

    def ask(topics: dict[str, list[int]], kind: int = 0) -> ElectLeadersRequest:
        asked = [TopicPartitions(topic=topic, partitions=parts) for topic, parts in topics.items()]
        return ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout_ms=5000)

    for version in range(3):
        yield f"v{version}", x.get(ask({name: [1, 0, 9], "script.none": [0]}), version)
    yield "unclean", x.get(ask({name: [0]}, 1), 2)
    yield "unknown kind", x.get(ask({name: [0]}, 7), 2)
    yield "a partition twice", x.get(ask({name: [0, 0]}), 2)
    yield "no partitions", x.get(ask({name: []}), 2)
    yield "no topics", x.get(ask({}), 2)


def logins(x: Exchange) -> Steps:
    """SASL where the listener is plaintext."""
    for version in range(2):
        yield f"handshake v{version}", x.get(SaslHandshakeRequest(mechanism="PLAIN"), version)
    for version in range(3):
        yield f"authenticate v{version}", x.get(SaslAuthenticateRequest(auth_bytes=b"\0u\0p"), version)


def acls(x: Exchange) -> Steps:
    """Rights where there is no authorizer."""
    rule = AclCreation(
        resource_type=2, resource_name="t", principal="User:u", host="*", operation=3, permission_type=3
    )
    some = DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
    for version in range(1, 4):
        every = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
        yield f"describe v{version}", x.get(every, version)
        yield f"create v{version}", x.get(CreateAclsRequest(creations=[rule, rule]), version)
        yield f"delete v{version}", x.get(DeleteAclsRequest(filters=[some, some]), version)
    yield "create none", x.get(CreateAclsRequest(creations=[]), 3)
    yield "delete none", x.get(DeleteAclsRequest(filters=[]), 3)


def delete_records(x: Exchange) -> Steps:
    """To an offset, to the end, backwards, beyond; topics that refuse."""
    name, compacted, either = (f"script.records-{kind}" for kind in ("plain", "compacted", "either"))
    make_topic(x, name, 2)
    make_topic(x, compacted, cleanup_policy="compact")
    make_topic(x, either, cleanup_policy="compact,delete")
    for each in (name, compacted, either):
        append(x, each, batch("a", "b", "c"))

    def ask(topic: str, *parts: tuple[int, int]) -> DeleteRecordsRequest:
        partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in parts]
        return DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=5000
        )

    for version in range(3):
        yield f"to 1 v{version}", x.get(ask(name, (0, 1)), version)
    for offset in (0, 2, 1, 4, -2, -1, 3):
        yield f"to {offset}", x.get(ask(name, (0, offset)), 2)
    yield "an empty partition", x.get(ask(name, (1, -1)), 2)
    yield "unknown partition", x.get(ask(name, (5, 0)), 2)
    yield "unknown topic", x.get(ask("script.none", (0, 0)), 2)
    yield "bad name", x.get(ask("no good", (0, 0)), 2)
    yield "compacted", x.get(ask(compacted, (0, 1)), 2)
    yield "compacted and deleted", x.get(ask(either, (0, 1)), 2)
    yield "nothing", x.get(DeleteRecordsRequest(timeout_ms=5000), 2)


def leader_epochs(x: Exchange) -> Steps:
    """OffsetForLeaderEpoch on a log that has seen one epoch."""
    name = "script.epochs"
    make_topic(x, name, 2)
    append(x, name, batch("a", "b"))

    def ask(index: int, epoch: int, current: int = -1, topic: str = name) -> OffsetForLeaderEpochRequest:
        part = OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
        return OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[part])]
        )

    for version in range(2, 5):
        yield f"v{version}", x.get(ask(0, 0), version)
    for epoch in (0, 1, 5, -1, -2):
        yield f"epoch {epoch}", x.get(ask(0, epoch), 4)
        yield f"empty, epoch {epoch}", x.get(ask(1, epoch), 4)
    for current in (0, 1, -1):
        yield f"current {current}", x.get(ask(0, 0, current), 4)
    yield "unknown partition", x.get(ask(9, 0), 4)
    yield "unknown topic", x.get(ask(0, 0, topic="script.none"), 4)
    yield "nothing", x.get(OffsetForLeaderEpochRequest(replica_id=-1), 4)
