"""What a node of several answers for partitions and groups that another node leads, or none."""

from collections.abc import Callable, Iterator

import pytest
from tests.broker.asking import append, batch, create, fetch_request, metadata, offset_at, part, values
from tests.broker.asking import produce_request as producing
from tests.broker.grouping import GROUP, alone, commit_request, find, heartbeat_request, join_request
from tests.broker.raw import Raw, Reply
from tests.broker.three import SECOND, THIRD, Node1, one_of_three

from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicName
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kohort.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node1]:
    with one_of_three(monkeypatch) as node:
        yield node


@pytest.fixture
def raw(node: Node1) -> Iterator[Raw]:
    with Raw(node.broker.bootstrap) as raw:
        yield raw


def hint(reply: Reply, entry: Reply) -> tuple[object, list[tuple[int, str, int]]]:
    leader = entry.current_leader
    return (
        leader and (leader.leader_id, leader.leader_epoch),
        [(each.node_id, each.host, each.port) for each in reply.node_endpoints],
    )


NO_HINT: tuple[object, list[object]] = (None, [])
TO_THIRD = ((3, 5), [(3, "third.example", 9_003)])


# Who leads


def test_metadata_names_all_nodes_and_the_leader_of_each_partition(node: Node1, raw: Raw) -> None:
    create(raw, "t", 3)
    node.move("t", 1, SECOND, 4)
    node.move("t", 2, None, 7)
    reply = metadata(raw, "t")
    here = node.broker.bootstrap.rsplit(":", 1)
    brokers = [(each.node_id, each.host, each.port, each.rack) for each in reply.brokers]
    assert brokers == [
        (1, here[0], int(here[1]), None),
        (2, "second.example", 9_002, "b"),
        (3, "third.example", 9_003, None),
    ]
    assert reply.controller_id == 1
    shown = [
        (each.error_code, each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes)
        for each in reply.topics[0].partitions
    ]
    assert shown == [
        (0, 1, 0, [1], [1]),
        (0, 2, 4, [2], [2]),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, 7, [], []),
    ]


def test_other_descriptions_say_the_same(node: Node1, raw: Raw) -> None:
    create(raw, "t", 2)
    node.move("t", 1, SECOND, 4)
    cluster = raw.send(DescribeClusterRequest(), 1)
    assert [each.broker_id for each in cluster.brokers] == [1, 2, 3]
    topics = raw.send(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0).topics
    assert [(each.leader_id, each.leader_epoch) for each in topics[0].partitions] == [(1, 0), (2, 4)]
    (directory,) = raw.send(DescribeLogDirsRequest(topics=None), 4).results
    assert [each.partition_index for each in directory.topics[0].partitions] == [0]
    asked = TopicPartitions(topic="t", partitions=[0, 1, 2])
    elected = raw.send(ElectLeadersRequest(election_type=0, topic_partitions=[asked]), 2)
    codes = [each.error_code for each in elected.replica_election_results[0].partition_result]
    not_needed = ErrorCode.ELECTION_NOT_NEEDED
    assert codes == [not_needed, not_needed, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# Produce and Fetch


@pytest.mark.parametrize(("version", "told"), [(9, NO_HINT), (10, TO_THIRD), (12, TO_THIRD)])
def test_a_produce_is_sent_to_the_new_leader(node: Node1, raw: Raw, version: int, told: object) -> None:
    create(raw, "t", 2)
    node.move("t", 1, THIRD, 5)
    reply = raw.send(producing("t", batch("a"), batch("b")), version)
    first, second = reply.responses[0].partition_responses
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (NOT_LEADER, -1)
    if version >= 10:
        assert hint(reply, second) == told


@pytest.mark.parametrize("version", [11, 12, 16])
def test_a_fetch_is_sent_to_the_new_leader(node: Node1, raw: Raw, version: int) -> None:
    topic_id = create(raw, "t", 2)
    node.move("t", 1, THIRD, 5)
    topic = topic_id if version >= 13 else "t"
    reply = raw.send(fetch_request({topic: (part(0), part(1))}), version)
    entry = reply.responses[0].partitions[1]
    assert (entry.error_code, entry.high_watermark) == (NOT_LEADER, -1)
    if version >= 12:
        leader, endpoints = TO_THIRD
        assert hint(reply, entry) == (leader, endpoints if version >= 16 else [])


def test_there_is_no_hint_without_a_leader_or_to_one_of_the_past(node: Node1, raw: Raw) -> None:
    create(raw, "t", 3)
    node.move("t", 0, None, 5)
    node.move("t", 1, SECOND, 0)  # as a view has it that is older than our own time as the leader
    node.move("t", 2, SECOND, 5)
    entries = raw.send(producing("t", batch("a"), batch("b")), 12)
    for entry in entries.responses[0].partition_responses:
        assert (entry.error_code, entry.current_leader) == (NOT_LEADER, None)
    assert entries.node_endpoints == []
    asked = raw.send(fetch_request({"t": (part(2, epoch=6),)}), 12)  # the client knows more than we do
    assert hint(asked, asked.responses[0].partitions[0]) == NO_HINT


def test_a_fetch_that_waits_is_answered_when_its_partition_goes(node: Node1, raw: Raw) -> None:
    topic_id = create(raw, "t", 1)
    raw.post(fetch_request({topic_id: (part(),)}, wait=60_000), 17)
    with Raw(node.broker.bootstrap) as other:
        assert metadata(other, "t").topics[0].error_code == 0
    node.move("t", 0, THIRD, 5)
    reply = raw.take()
    assert hint(reply, reply.responses[0].partitions[0]) == TO_THIRD


def list_offsets(timestamp: int) -> Message:
    where = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[where])])


def delete_records() -> Message:
    where = DeleteRecordsPartition(partition_index=0, offset=-1)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[where])])


def offset_for_epoch() -> Message:
    where = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[where])])


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (list_offsets(-1), 11),
        (list_offsets(-2), 11),
        (list_offsets(5), 11),
        (delete_records(), 2),
        (offset_for_epoch(), 4),
    ],
)
@pytest.mark.parametrize("leader", [SECOND, None])
def test_every_other_request_for_its_log_is_refused(
    node: Node1, raw: Raw, request_: Message, version: int, leader: object
) -> None:
    create(raw, "t", 1)
    append(raw, "t", batch("a"))
    assert raw.send(request_, version).topics[0].partitions[0].error_code == 0
    node.move("t", 0, SECOND if leader is not None else None, 5)
    assert raw.send(request_, version).topics[0].partitions[0].error_code == NOT_LEADER


def test_a_partition_that_comes_back_is_served_at_its_new_epoch(node: Node1, raw: Raw) -> None:
    create(raw, "t", 1)
    append(raw, "t", batch("a"), batch("b"))
    node.move("t", 0, SECOND, 1)
    assert raw.send(producing("t", batch("lost")), 9).responses[0].partition_responses[0].error_code
    node.move("t", 0, node.cluster.here, 2)
    append(raw, "t", batch("c"))
    assert values(raw, "t") == ["a", "b", "c"]
    assert offset_at(raw, "t", -1).leader_epoch == 2


def test_a_topic_that_another_node_deletes_is_gone_here_and_its_name_is_free(node: Node1, raw: Raw) -> None:
    create(raw, "old", 1)
    catalog = node.cluster._catalog

    async def change() -> None:
        await catalog.delete_topic(TopicName("old"))
        await node.broker.server.broker.following.settled()

    node.broker.run(change())
    assert metadata(raw, "old").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(raw, "old", 1)
    assert append(raw, "old", batch("a")) == 0


# Groups


@pytest.fixture
def member(node: Node1, raw: Raw) -> tuple[str, int]:
    """The only member of a group that has committed an offset."""
    create(raw, "t", 1)
    member = alone(raw)
    reply = raw.send(commit_request((0, 7), member=member), 8)
    assert reply.topics[0].partitions[0].error_code == 0
    return member


def committed(raw: Raw) -> tuple[int, int]:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
    (group,) = raw.send(OffsetFetchRequest(groups=[asked]), 8).groups
    return group.error_code, group.topics[0].partitions[0].committed_offset if group.topics else -1


def test_requests_for_a_group_of_another_node_are_not_coordinator(
    node: Node1, raw: Raw, member: tuple[str, int]
) -> None:
    requests: list[tuple[Message, int, Callable[[Reply], int]]] = [
        (heartbeat_request(*member), 4, lambda reply: reply.error_code),
        (heartbeat_request(*member), 4, lambda reply: reply.error_code),  # is recognised
        (join_request(member[0]), 5, lambda reply: reply.error_code),
        (commit_request((0, 8), member=member), 8, lambda reply: reply.topics[0].partitions[0].error_code),
    ]
    assert [raw.send(heartbeat_request(*member), 4).error_code for _ in range(3)] == [0, 0, 0]
    node.move(CONSUMER_OFFSETS, 0, SECOND, 3)
    for request, version, code in requests:
        assert code(raw.send(request, version)) == ErrorCode.NOT_COORDINATOR, request
    assert committed(raw)[0] == ErrorCode.NOT_COORDINATOR
    assert raw.send(ListGroupsRequest(), 4).groups == []


def test_the_coordinator_is_found_on_the_node_that_leads_the_shard(
    node: Node1, raw: Raw, member: tuple[str, int]
) -> None:
    node.move(CONSUMER_OFFSETS, 0, SECOND, 3)
    found = find(raw)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 2, "second.example", 9_002)
    (entry,) = raw.send(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4).coordinators
    assert (entry.error_code, entry.node_id, entry.host, entry.port) == (0, 2, "second.example", 9_002)
    node.move(CONSUMER_OFFSETS, 0, None, 4)
    found = find(raw)
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_a_shard_that_comes_back_is_loaded_with_its_groups(
    node: Node1, raw: Raw, member: tuple[str, int]
) -> None:
    node.move(CONSUMER_OFFSETS, 0, SECOND, 3)
    node.move(CONSUMER_OFFSETS, 0, node.cluster.here, 4)
    node.broker.run(node.broker.server.broker.coordinator.ready())
    assert committed(raw) == (0, 7)
    assert raw.send(heartbeat_request(*member), 4).error_code == 0
    assert raw.send(commit_request((0, 8), member=member), 8).topics[0].partitions[0].error_code == 0
    assert committed(raw) == (0, 8)


def test_a_member_that_waits_is_answered_when_its_shard_goes(node: Node1, raw: Raw) -> None:
    create(raw, "t", 1)
    alone(raw)
    with Raw(node.broker.bootstrap) as other:
        other.post(join_request(), 3)  # waits for the first member, which does not join again
        raw.send(ListGroupsRequest(), 4)
        node.move(CONSUMER_OFFSETS, 0, SECOND, 3)
        assert other.take().error_code == ErrorCode.NOT_COORDINATOR
