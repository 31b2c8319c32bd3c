"""Administration of a cluster: topics, configs, offsets, groups.

Calls that take several items return a result for each: the item's answer, or its BrokerError as a value.
Calls about one thing raise. Whatever fails for a passing reason is repeated within ``api_timeout_ms``.
"""

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

from kohort.client.admin import configs, groups
from kohort.client.admin import topics as topic_calls
from kohort.client.admin.results import (
    ClusterInfo,
    CommittedOffset,
    Config,
    CreatedTopic,
    GroupInfo,
    ListedGroup,
    ListedOffset,
    LogDir,
    NewTopic,
    Resource,
)
from kohort.client.cluster import Cluster, CoordinatorOf, Target
from kohort.client.connection import Connection
from kohort.client.errors import BrokerError
from kohort.client.metadata import Node, TopicInfo
from kohort.client.partitions import AnyPartition, PartitionKey, as_partition, as_partitions
from kohort.client.security.settings import SecurityOptions
from kohort.client.settings import DEFAULTS, ClientOptions, secured
from kohort.model.ids import GroupId, Offset, TopicName
from kohort.model.topics import TopicPartition

T = TypeVar("T")


class AsyncAdmin:
    """``async with AsyncAdmin("host:9092") as admin``; or on a Cluster that its owner closes.

    A partition may be a plain pair of topic and number. Security settings are keyword arguments, as those of
    consumers.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | Cluster,
        options: ClientOptions = DEFAULTS,
        **security: Unpack[SecurityOptions],
    ) -> None:
        if isinstance(bootstrap_servers, Cluster):
            self.cluster = bootstrap_servers
        else:
            servers = [bootstrap_servers] if isinstance(bootstrap_servers, str) else bootstrap_servers
            self.cluster = Cluster(",".join(servers), secured(options, security, is_text=False))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {','.join(map(str, self.cluster.bootstrap))}>"

    async def __aenter__(self) -> Self:
        await self.cluster.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.close()

    # The cluster

    async def describe_cluster(self) -> ClusterInfo:
        return await topic_calls.describe_cluster(self.cluster)

    async def connection_to(self, target: Target) -> Connection:
        """A connection to one broker: what it serves (``api_versions``, ``features``), and raw requests."""
        return await self.cluster.retry(lambda: self.cluster.connection(target))

    async def describe_log_dirs(self, partitions: Collection[AnyPartition] | None = None) -> list[LogDir]:
        """The directories of all brokers with the size of these partitions, or of all."""
        return await topic_calls.describe_log_dirs(self.cluster, _partitions(partitions))

    # Topics

    async def list_topics(self) -> list[TopicInfo]:
        """All topics the caller may see, internal ones included, by name."""
        return await topic_calls.list_topics(self.cluster)

    async def describe_topics(self, names: Collection[str]) -> dict[TopicName, TopicInfo | BrokerError]:
        return await topic_calls.describe_topics(self.cluster, _several(names))

    async def describe_topic(self, name: str) -> TopicInfo:
        """One topic; raises UnknownTopicError."""
        return _only((await self.describe_topics([name]))[TopicName(name)])

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[TopicName, CreatedTopic | BrokerError]:
        for topic in topics:
            if not isinstance(topic, NewTopic):
                raise TypeError(f"{topic!r} is no NewTopic, as in NewTopic('orders', partitions=3)")
        return await topic_calls.create_topics(self.cluster, topics, validate_only=validate_only)

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
        """Create one topic, or raise the broker's refusal."""
        (created,) = (await self.create_topics([topic], validate_only=validate_only)).values()
        return _only(created)

    async def delete_topics(self, names: Collection[str]) -> dict[TopicName, BrokerError | None]:
        return await topic_calls.delete_topics(self.cluster, _several(names))

    async def create_partitions(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[TopicName, BrokerError | None]:
        """Let topics grow to these numbers of partitions."""
        return await topic_calls.create_partitions(self.cluster, totals, validate_only=validate_only)

    async def delete_records(
        self, before: Mapping[PartitionKey, int]
    ) -> dict[TopicPartition, Offset | BrokerError]:
        """Drop what is before these offsets (-1: everything there is); the new first offsets."""
        return await topic_calls.delete_records(self.cluster, _by_partition(before))

    # Configs

    async def describe_configs(
        self, resources: Collection[Resource]
    ) -> dict[Resource, dict[str, Config] | BrokerError]:
        return await configs.describe_configs(self.cluster, resources)

    async def alter_configs(
        self, changes: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[Resource, BrokerError | None]:
        """Set these configs and leave all others alone; None goes back to the default."""
        return await configs.alter_configs(self.cluster, changes, validate_only=validate_only)

    # Offsets of partitions

    async def list_offsets(
        self, wanted: Mapping[PartitionKey, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        """Where ``OffsetSpec.EARLIEST``, ``LATEST`` or a timestamp lies in each partition."""
        return await topic_calls.list_offsets(
            self.cluster, _by_partition(wanted), read_committed=read_committed
        )

    # Groups

    async def find_coordinator(self, group_id: str) -> Node:
        return await self.cluster.retry(lambda: self.cluster.find_coordinator(CoordinatorOf(group_id)))

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """All groups by id, or those in these states (``Stable`` …) and of these types (``classic`` …)."""
        return await groups.list_groups(self.cluster, states=_several(states), types=_several(types))

    async def describe_groups(self, group_ids: Collection[str]) -> dict[GroupId, GroupInfo | BrokerError]:
        described: dict[GroupId, GroupInfo | BrokerError] = {}
        for group_id in map(GroupId, _several(group_ids)):
            try:
                described[group_id] = await groups.describe_group(self.cluster, group_id)
            except BrokerError as error:
                described[group_id] = error
        return described

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Collection[AnyPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """What a group has committed, for these partitions or for all; nothing for one without a commit."""
        return await groups.list_group_offsets(
            self.cluster, group_id, _partitions(partitions), require_stable=require_stable
        )

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[PartitionKey, CommittedOffset | int]
    ) -> dict[TopicPartition, BrokerError | None]:
        """Commit for a group that has no members; a number is the next offset to read."""
        places = {
            partition: CommittedOffset(Offset(offset)) if isinstance(offset, int) else offset
            for partition, offset in _by_partition(offsets).items()
        }
        return await groups.alter_group_offsets(self.cluster, group_id, places)

    async def delete_groups(self, group_ids: Collection[str]) -> dict[GroupId, BrokerError | None]:
        return await groups.delete_groups(self.cluster, _several(group_ids))

    async def delete_group_offsets(
        self, group_id: str, partitions: Collection[AnyPartition]
    ) -> dict[TopicPartition, BrokerError | None]:
        return await groups.delete_group_offsets(self.cluster, group_id, as_partitions(partitions))


def _several(names: Collection[str]) -> Collection[str]:
    if isinstance(names, str):
        raise TypeError(f"write a list of names: [{names!r}]")  # else each letter of it would be one
    return names


def _partitions(partitions: Collection[AnyPartition] | None) -> list[TopicPartition] | None:
    return None if partitions is None else as_partitions(partitions)


def _by_partition(items: Mapping[PartitionKey, T]) -> dict[TopicPartition, T]:
    return {as_partition(partition): item for partition, item in items.items()}


def _only(result: T | BrokerError) -> T:
    if isinstance(result, BrokerError):
        raise result
    return result
