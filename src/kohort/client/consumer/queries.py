"""Questions about partitions, assigned or not."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError
from kohort.client.offset_admin import OffsetSpec, list_offsets
from kohort.client.results import ListedOffset
from kohort.client.subscription import OffsetAndMetadata
from kohort.model.errors import KohortError
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition

AnyPartition = TopicPartition | tuple[str, int]
"""A partition; a plain pair of topic and number will do."""


class OffsetAndTimestamp(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


def as_partition(partition: AnyPartition) -> TopicPartition:
    topic, number = partition
    return TopicPartition(TopicName(topic), Partition(number))


def as_offsets(
    offsets: Mapping[AnyPartition, int | OffsetAndMetadata] | None,
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """Offsets to commit; a number stands for the next offset to read, without a note."""
    if offsets is None:
        return None
    return {
        as_partition(partition): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        for partition, offset in offsets.items()
    }


async def places(
    cluster: Cluster, partitions: Iterable[AnyPartition], spec: OffsetSpec, *, read_committed: bool
) -> dict[TopicPartition, int]:
    """The beginning or the end of each."""
    wanted = {as_partition(each): int(spec) for each in partitions}
    found = await list_offsets(cluster, wanted, read_committed=read_committed)
    return {partition: _listed(listed).offset for partition, listed in found.items()}


async def by_times(
    cluster: Cluster, times: Mapping[AnyPartition, int], *, read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """The first record as new as asked for in each; None if there is none."""
    for partition, time in times.items():
        if time < 0:
            raise KohortError(
                f"cannot look for time {time} in {as_partition(partition)}: it is negative",
                hint="times are milliseconds since 1970; see also beginning_offsets and end_offsets",
            )
    wanted = {as_partition(each): time for each, time in times.items()}
    found = await list_offsets(cluster, wanted, read_committed=read_committed)
    results: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    for partition, answer in found.items():
        listed = _listed(answer)
        results[partition] = OffsetAndTimestamp(*listed) if listed.offset >= 0 else None
    return results


def _listed(answer: ListedOffset | BrokerError) -> ListedOffset:
    if isinstance(answer, BrokerError):
        raise answer
    return answer
