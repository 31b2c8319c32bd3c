"""Offsets of partitions by time or end. Functions behind ``Admin``, fetching and lag."""

from collections.abc import Mapping
from enum import IntEnum

from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError
from kohort.client.results import ListedOffset
from kohort.client.topic_admin import by_topic
from kohort.model.ids import LeaderEpoch, NodeId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_CONSUMER = -1


class OffsetSpec(IntEnum):
    """Places in a log that have a name; any other is a timestamp in milliseconds since 1970."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, ListedOffset | BrokerError]:
    """Where each partition's ``OffsetSpec`` or timestamp lies."""

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
                            partition_index=number, timestamp=wanted[TopicPartition(topic, number)]
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

    return await cluster.ask_leaders(wanted, ask)


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
