"""Topics: list, create, delete, grow, trim; their offsets, and how much disk they take.

The calls of ``AsyncAdmin`` and ``Admin``, as functions of a cluster.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

from kohort.client.admin.results import ClusterInfo, CreatedTopic, ListedOffset, LogDir, LogSize, NewTopic
from kohort.client.arguments import (
    AnyPartition,
    PartitionKey,
    as_list,
    as_partitions,
    by_topic,
    keyed_by_partition,
)
from kohort.client.cluster import ClusterClient, Role, Target
from kohort.client.connection import ClientConnection
from kohort.client.errors import BrokerError, check
from kohort.client.metadata import TopicInfo
from kohort.model.errors import ErrorCode
from kohort.model.ids import LeaderEpoch, NodeId, Offset, Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

T = TypeVar("T")


async def describe_cluster(cluster: ClusterClient) -> ClusterInfo:
    """The id of the cluster, its controller and its brokers."""
    metadata = await cluster.retry(lambda: cluster.refresh(()))
    nodes = tuple(sorted(metadata.nodes.values()))
    return ClusterInfo(cluster_id=metadata.cluster_id, controller_id=metadata.controller_id, nodes=nodes)


async def connection_to(cluster: ClusterClient, target: Target) -> ClientConnection:
    """A connection to one broker: what it serves (``api_versions``, ``features``), and raw requests."""
    return await cluster.retry(lambda: cluster.connection(target))


async def list_topics(cluster: ClusterClient) -> list[TopicInfo]:
    """All topics the caller may see, internal ones included, by name."""
    metadata = await cluster.retry(cluster.refresh_all)
    return [metadata.topics[name] for name in sorted(metadata.topics)]


async def describe_topics(
    cluster: ClusterClient, names: Collection[str]
) -> dict[TopicName, TopicInfo | BrokerError]:
    """Partitions, leaders and ids of these topics; the error of each that cannot be described."""
    wanted = as_list(names)
    metadata = await cluster.retry(lambda: cluster.refresh(wanted))
    described: dict[TopicName, TopicInfo | BrokerError] = {}
    for name in map(TopicName, wanted):
        try:
            described[name] = metadata.topic(name)
        except BrokerError as error:
            described[name] = error
    return described


async def describe_topic(cluster: ClusterClient, name: str) -> TopicInfo:
    """One topic; raises UnknownTopicError."""
    return _only((await describe_topics(cluster, [name]))[TopicName(name)])


def _only(result: T | BrokerError) -> T:
    if isinstance(result, BrokerError):
        raise result
    return result


def controller_takes(codes: Iterable[int]) -> None:
    """Raise, to be retried elsewhere, if the node is not the controller; other codes are results."""
    if ErrorCode.NOT_CONTROLLER in codes:
        raise BrokerError(ErrorCode.NOT_CONTROLLER, "find the controller")


async def create_topics(
    cluster: ClusterClient, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[TopicName, CreatedTopic | BrokerError]:
    """Create topics, or only check them; by name what was created, or why not."""
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise TypeError(f"{topic!r} is no NewTopic, as in NewTopic('orders', partitions=3)")
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=cluster.options.request_timeout_ms,
        validate_only=validate_only,
    )

    def on_controller(reply: CreateTopicsResponse) -> None:
        controller_takes(one.error_code for one in reply.topics)

    reply = await cluster.ask(Role.CONTROLLER, request, CreateTopicsResponse, check=on_controller)
    created: dict[TopicName, CreatedTopic | BrokerError] = {}
    for one in reply.topics:
        name = TopicName(one.name)
        if one.error_code:
            created[name] = BrokerError(one.error_code, f"create topic {name!r}", one.error_message)
        else:
            created[name] = CreatedTopic(
                name=name,
                topic_id=TopicId(one.topic_id),
                partitions=one.num_partitions,
                replication_factor=one.replication_factor,
            )
    return created


async def create_topic(
    cluster: ClusterClient, topic: NewTopic, *, validate_only: bool = False
) -> CreatedTopic:
    """Create one topic, or raise the broker's refusal."""
    (created,) = (await create_topics(cluster, [topic], validate_only=validate_only)).values()
    return _only(created)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


async def delete_topics(
    cluster: ClusterClient, names: Collection[str]
) -> dict[TopicName, BrokerError | None]:
    """Delete topics; by name None, or why not."""
    request = DeleteTopicsRequest(
        topic_names=as_list(names),
        topics=[DeleteTopicState(name=name) for name in names],
        timeout_ms=cluster.options.request_timeout_ms,
    )

    def on_controller(reply: DeleteTopicsResponse) -> None:
        controller_takes(one.error_code for one in reply.responses)

    reply = await cluster.ask(Role.CONTROLLER, request, DeleteTopicsResponse, check=on_controller)
    cluster.metadata = cluster.metadata.without_topics(names)
    return {
        TopicName(one.name or ""): outcome(one.error_code, f"delete topic {one.name!r}", one.error_message)
        for one in reply.responses
    }


def outcome(code: int, what: str, message: str | None = None) -> BrokerError | None:
    """None for success, else the error as a value: its neighbours may have succeeded."""
    return BrokerError(code, what, message) if code else None


async def create_partitions(
    cluster: ClusterClient, totals: Mapping[str, int], *, validate_only: bool = False
) -> dict[TopicName, BrokerError | None]:
    """Let topics grow to these numbers of partitions."""
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in totals.items()
        ],
        timeout_ms=cluster.options.request_timeout_ms,
        validate_only=validate_only,
    )

    def on_controller(reply: CreatePartitionsResponse) -> None:
        controller_takes(one.error_code for one in reply.results)

    reply = await cluster.ask(Role.CONTROLLER, request, CreatePartitionsResponse, check=on_controller)
    cluster.metadata = cluster.metadata.without_topics(totals)
    return {
        TopicName(one.name): outcome(
            one.error_code, f"give topic {one.name!r} {totals.get(one.name)} partitions", one.error_message
        )
        for one in reply.results
    }


async def delete_records(
    cluster: ClusterClient, before: Mapping[PartitionKey, int]
) -> dict[TopicPartition, Offset | BrokerError]:
    """Drop what is before these offsets (-1: everything there is); the new first offsets."""
    first = keyed_by_partition(before)

    async def ask(
        node: NodeId, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, Offset | BrokerError]:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(
                        partition_index=number, offset=first[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=cluster.options.request_timeout_ms)
        connection = await cluster.connection(node)
        reply = await connection.send(request, DeleteRecordsResponse)
        return {
            partition: BrokerError(one.error_code, f"delete records of {partition}")
            if one.error_code
            else Offset(one.low_watermark)
            for topic in reply.topics
            for one in topic.partitions
            for partition in [TopicPartition(TopicName(topic.name), Partition(one.partition_index))]
        }

    return await cluster.ask_leaders(first, ask)


async def describe_log_dirs(
    cluster: ClusterClient, partitions: Collection[AnyPartition] | None = None
) -> list[LogDir]:
    """The directories of all brokers with the size of these partitions, or of all."""
    asked = None
    if partitions is not None:
        asked = [
            DescribableLogDirTopic(topic=topic, partitions=list(numbers))
            for topic, numbers in by_topic(as_partitions(partitions)).items()
        ]
    metadata = await cluster.retry(lambda: cluster.refresh(()))
    request = DescribeLogDirsRequest(topics=asked)
    replies = await asyncio.gather(
        *(
            cluster.ask(node, request, DescribeLogDirsResponse, check=_log_dirs_answered)
            for node in metadata.nodes
        )
    )
    return [
        one for node, reply in zip(metadata.nodes, replies, strict=True) for one in _log_dirs(node, reply)
    ]


def _log_dirs_answered(reply: DescribeLogDirsResponse) -> None:
    check(reply.error_code, "describe log directories")


def _log_dirs(node: NodeId, reply: DescribeLogDirsResponse) -> Iterable[LogDir]:
    for found in reply.results:
        check(found.error_code, f"describe the log directory {found.log_dir} of broker {node}")
        yield LogDir(
            node_id=node,
            path=found.log_dir,
            replicas=tuple(
                LogSize(
                    TopicPartition(TopicName(topic.name), Partition(one.partition_index)),
                    one.partition_size,
                    one.offset_lag,
                    one.is_future_key,
                )
                for topic in found.topics
                for one in topic.partitions
            ),
            total_bytes=found.total_bytes,
            usable_bytes=found.usable_bytes,
        )


_CONSUMER = -1


class OffsetSpec(IntEnum):
    """Places in a log that have a name; any other is a timestamp in milliseconds since 1970."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


async def list_offsets(
    cluster: ClusterClient, wanted: Mapping[PartitionKey, int], *, read_committed: bool = False
) -> dict[TopicPartition, ListedOffset | BrokerError]:
    """Where ``OffsetSpec.EARLIEST``, ``LATEST`` or a timestamp lies in each partition."""
    times = keyed_by_partition(wanted)

    async def ask(
        node: NodeId, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=1 if read_committed else 0,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=number, timestamp=times[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
            timeout_ms=cluster.options.request_timeout_ms,
        )
        connection = await cluster.connection(node)
        return _offsets(await connection.send(request, ListOffsetsResponse))

    return await cluster.ask_leaders(times, ask)


def _offsets(reply: ListOffsetsResponse) -> dict[TopicPartition, ListedOffset | BrokerError]:
    found: dict[TopicPartition, ListedOffset | BrokerError] = {}
    for topic in reply.topics:
        for one in topic.partitions:
            partition = TopicPartition(TopicName(topic.name), Partition(one.partition_index))
            if one.error_code:
                found[partition] = BrokerError(one.error_code, f"list the offsets of {partition}")
            else:
                found[partition] = ListedOffset(
                    Offset(one.offset), one.timestamp, LeaderEpoch(one.leader_epoch)
                )
    return found
