"""Topics through ``AsyncAdmin``."""

import pytest
from tests.unit.client.scripted import ScriptedCluster, in_turn, on_loop

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import CreatedTopic, LogSize, NewTopic
from kohort.client.admin.topics import OffsetSpec
from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.codec.schema import Versions
from kohort.model.errors import ErrorCode
from kohort.model.ids import Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.apis import ApiKey
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kohort.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kohort.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kohort.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


def tp(topic: str, number: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), Partition(number))


@on_loop
async def test_the_cluster_is_described_by_its_brokers_and_controller() -> None:
    brokers = ScriptedCluster(nodes=2)
    brokers.controller = 2
    async with AsyncAdmin(brokers.client()) as admin:
        found = await admin.describe_cluster()
    assert (found.cluster_id, found.controller_id) == ("scripted", 2)
    assert [str(node.address) for node in found.nodes] == ["host:9001", "host:9002"]


@on_loop
async def test_what_one_broker_serves_can_be_seen() -> None:
    brokers = ScriptedCluster(nodes=2)
    brokers.peers[2].served[ApiKey.FETCH] = Versions(4, 11)
    async with AsyncAdmin(brokers.client()) as admin:
        assert (await admin.connection_to(2)).api_versions[ApiKey.FETCH] == Versions(4, 11)


@on_loop
async def test_topics_are_listed_by_name_and_described_one_by_one() -> None:
    brokers = ScriptedCluster(topics={"b": [1], "a": [1, 1]})
    async with AsyncAdmin(brokers.client()) as admin:
        assert [topic.name for topic in await admin.list_topics()] == ["a", "b"]
        described = await admin.describe_topics(["a", "gone"])
        assert isinstance(described[TopicName("gone")], UnknownTopicError)
        assert len((await admin.describe_topic("a")).partitions) == 2
        with pytest.raises(UnknownTopicError):
            await admin.describe_topic("gone")


@on_loop
async def test_creating_says_for_each_topic_what_became_of_it() -> None:
    brokers = ScriptedCluster()
    results = [
        CreatableTopicResult(name="new", topic_id=b"i" * 16, num_partitions=3, replication_factor=1),
        CreatableTopicResult(
            name="old", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="It exists."
        ),
    ]
    brokers.on(CreateTopicsRequest, lambda _: CreateTopicsResponse(topics=results))
    async with AsyncAdmin(brokers.client()) as admin:
        created = await admin.create_topics(
            [NewTopic(name="new", partitions=3, configs={"retention.ms": "1"}), NewTopic(name="old")],
            validate_only=True,
        )
    assert created[TopicName("new")] == CreatedTopic(
        name=TopicName("new"), topic_id=TopicId(b"i" * 16), partitions=3, replication_factor=1
    )
    assert "cannot create topic 'old': It exists [TOPIC_ALREADY_EXISTS]" in str(created[TopicName("old")])
    request = brokers.asked(CreateTopicsRequest)[0].request
    assert isinstance(request, CreateTopicsRequest)
    assert request.validate_only
    assert [(one.num_partitions, one.replication_factor) for one in request.topics] == [(3, -1), (-1, -1)]
    assert [(one.name, one.value) for one in request.topics[0].configs] == [("retention.ms", "1")]


@on_loop
async def test_creating_one_topic_raises_the_refusal() -> None:
    brokers = ScriptedCluster()
    refused = CreatableTopicResult(name="t", error_code=ErrorCode.INVALID_PARTITIONS, error_message="zero")
    brokers.on(CreateTopicsRequest, lambda _: CreateTopicsResponse(topics=[refused]))
    async with AsyncAdmin(brokers.client()) as admin:
        with pytest.raises(BrokerError, match="zero"):
            await admin.create_topic(NewTopic(name="t", partitions=0))


@on_loop
async def test_a_broker_that_is_not_the_controller_is_left_for_the_one_that_is() -> None:
    brokers = ScriptedCluster(nodes=2)

    def elsewhere(_request: object) -> DeleteTopicsResponse:
        brokers.controller = 2
        moved = DeletableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)
        return DeleteTopicsResponse(responses=[moved])

    done = DeleteTopicsResponse(responses=[DeletableTopicResult(name="t")])
    brokers.on(DeleteTopicsRequest, in_turn(elsewhere, done))
    async with AsyncAdmin(brokers.client()) as admin:
        assert await admin.delete_topics(["t"]) == {"t": None}
    assert [one.node_id for one in brokers.asked(DeleteTopicsRequest)] == [1, 2]


@on_loop
async def test_a_deleted_topic_is_forgotten() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    answers = [
        DeletableTopicResult(name="t"),
        DeletableTopicResult(name="u", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    brokers.on(DeleteTopicsRequest, lambda _: DeleteTopicsResponse(responses=answers))
    async with AsyncAdmin(brokers.client()) as admin:
        await admin.cluster.topics(["t"])
        deleted = await admin.delete_topics(["t", "u"])
        assert "t" not in admin.cluster.metadata.topics
    assert deleted[TopicName("t")] is None
    assert "cannot delete topic 'u'" in str(deleted[TopicName("u")])


@on_loop
async def test_a_topic_grows_to_a_total_of_partitions() -> None:
    brokers = ScriptedCluster(topics={"t": [1]})
    refused = CreatePartitionsTopicResult(name="t", error_code=ErrorCode.INVALID_PARTITIONS)
    brokers.on(CreatePartitionsRequest, lambda _: CreatePartitionsResponse(results=[refused]))
    async with AsyncAdmin(brokers.client()) as admin:
        result = (await admin.create_partitions({"t": 1}))[TopicName("t")]
    assert "give topic 't' 1 partitions: INVALID_PARTITIONS" in str(result)
    request = brokers.asked(CreatePartitionsRequest)[0].request
    assert isinstance(request, CreatePartitionsRequest)
    assert (request.topics[0].count, request.topics[0].assignments) == (1, None)


@on_loop
async def test_offsets_are_listed_at_the_leaders() -> None:
    brokers = ScriptedCluster(nodes=2, topics={"t": [1, 2]})

    def listed(request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        found = ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, offset=asked.timestamp + 10, leader_epoch=4
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[found])])

    brokers.on(ListOffsetsRequest, listed)
    async with AsyncAdmin(brokers.client()) as admin:
        found = await admin.list_offsets(
            {tp("t", 0): OffsetSpec.EARLIEST, tp("t", 1): 500}, read_committed=True
        )
    assert found == {tp("t", 0): (8, -1, 4), tp("t", 1): (510, -1, 4)}
    request = brokers.asked(ListOffsetsRequest)[0].request
    assert isinstance(request, ListOffsetsRequest)
    assert (request.isolation_level, request.replica_id) == (1, -1)


@on_loop
async def test_records_are_deleted_at_the_leaders_and_the_new_starts_come_back() -> None:
    brokers = ScriptedCluster(topics={"t": [1, 1]})
    results = [
        DeleteRecordsPartitionResult(partition_index=0, low_watermark=5),
        DeleteRecordsPartitionResult(
            partition_index=1, low_watermark=-1, error_code=ErrorCode.POLICY_VIOLATION
        ),
    ]
    topic = DeleteRecordsTopicResult(name="t", partitions=results)
    brokers.on(DeleteRecordsRequest, lambda _: DeleteRecordsResponse(topics=[topic]))
    async with AsyncAdmin(brokers.client()) as admin:
        deleted = await admin.delete_records({tp("t", 0): 5, tp("t", 1): -1})
    assert deleted[tp("t", 0)] == 5
    assert "delete records of t-1: POLICY_VIOLATION" in str(deleted[tp("t", 1)])


@on_loop
async def test_log_directories_of_all_brokers_are_listed() -> None:
    brokers = ScriptedCluster(nodes=2, topics={"t": [1]})
    size = DescribeLogDirsPartition(partition_index=0, partition_size=42, offset_lag=1)
    found = DescribeLogDirsResult(
        log_dir="/data", topics=[DescribeLogDirsTopic(name="t", partitions=[size])], total_bytes=9
    )
    brokers.on(DescribeLogDirsRequest, lambda _: DescribeLogDirsResponse(results=[found]))
    async with AsyncAdmin(brokers.client()) as admin:
        everything = await admin.describe_log_dirs()
        await admin.describe_log_dirs([tp("t", 0)])
    assert [one.node_id for one in everything] == [1, 2]
    assert everything[0].replicas == (LogSize(tp("t", 0), 42, 1, False),)
    requests = [one.request for one in brokers.asked(DescribeLogDirsRequest)]
    assert isinstance(requests[0], DescribeLogDirsRequest)
    assert requests[0].topics is None
    assert isinstance(requests[-1], DescribeLogDirsRequest)
    assert requests[-1].topics is not None


@on_loop
async def test_a_directory_that_failed_is_an_error() -> None:
    brokers = ScriptedCluster()
    broken = DescribeLogDirsResult(log_dir="/data", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    brokers.on(DescribeLogDirsRequest, lambda _: DescribeLogDirsResponse(results=[broken]))
    async with AsyncAdmin(brokers.client()) as admin:
        with pytest.raises(BrokerError, match="/data of broker 1: KAFKA_STORAGE_ERROR"):
            await admin.describe_log_dirs()
