"""Questions about partitions, assigned or not."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kohort.client.admin.results import ListedOffset
from kohort.client.admin.topics import OffsetSpec, list_offsets
from kohort.client.cluster import Cluster
from kohort.client.consumer.arguments import as_times, as_topics
from kohort.client.errors import BrokerError
from kohort.client.partitions import AnyPartition, PartitionKey, as_partitions
from kohort.model.topics import TopicPartition


class OffsetAndTimestamp(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


async def places(
    cluster: Cluster, partitions: Iterable[AnyPartition], spec: OffsetSpec, *, read_committed: bool
) -> dict[TopicPartition, int]:
    """The beginning or the end of each."""
    wanted = dict.fromkeys(as_partitions(partitions), int(spec))
    found = await list_offsets(cluster, wanted, read_committed=read_committed)
    return {partition: _listed(listed).offset for partition, listed in found.items()}


async def by_times(
    cluster: Cluster, times: Mapping[PartitionKey, int], *, read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """The first record as new as asked for in each; None if there is none."""
    found = await list_offsets(cluster, as_times(times), read_committed=read_committed)
    results: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    for partition, answer in found.items():
        listed = _listed(answer)
        results[partition] = OffsetAndTimestamp(*listed) if listed.offset >= 0 else None
    return results


async def partitions_of(cluster: Cluster, topic: str) -> set[int]:
    (name,) = as_topics([topic])
    metadata = await cluster.retry(lambda: cluster.refresh([name]))
    return {each.partition for each in metadata.topic(name).partitions}


async def public_topics(cluster: Cluster) -> set[str]:
    metadata = await cluster.retry(cluster.refresh_all)
    return {name for name, topic in metadata.topics.items() if not topic.is_internal}


def _listed(answer: ListedOffset | BrokerError) -> ListedOffset:
    if isinstance(answer, BrokerError):
        raise answer
    return answer
