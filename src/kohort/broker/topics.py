"""Topics as the broker serves them: what the cluster knows, with the logs of them that this node leads.

The cluster decides what exists; ``kohort.broker.following`` makes that visible here. Where this node is the
only one, the logs of a new topic or partition are opened first, then it is stored: a failure in between
leaves nothing behind. Changes are made one after another.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.config_values import ConfigValues, check_topic_configs
from kohort.cluster.view import Placed, PlacedTopic
from kohort.log.catalog import ClusterCatalog, new_topic_id
from kohort.log.log import Cleanup, Log, LogConfig, LogSpec
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, NodeId, Partition, TopicId, TopicName
from kohort.model.topics import (
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    Topic,
    TopicPartition,
    collision_key,
    is_legal_name,
    why_illegal,
)
from kohort.records.compression import Codec
from kohort.security.listeners import split_list

if TYPE_CHECKING:
    from kohort.broker.following import Following

# A topic with more partitions than this is a mistake; each is a directory with open files.
MAX_PARTITIONS = 10_000

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True)
class TopicToCreate:
    """A topic to create; -1 leaves a number to the broker."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] | None = None
    assignment: Mapping[int, list[int]] | None = None


@dataclass(slots=True)
class ServedTopic:
    """A topic with the logs this node leads, and the configs the produce path needs on every batch."""

    name: TopicName
    topic_id: TopicId
    placed: Sequence[Placed]  # where each partition is, by its number
    logs: dict[int, Log]  # those that are led here and open
    lost: dict[int, LeaderEpoch]  # those that were led here: the last epoch of each
    configs: Mapping[str, str]
    max_message_bytes: int
    segment_bytes: int
    compacted: bool
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    codec: Codec | None  # None: as the producer chose

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def partitions(self) -> int:
        """How many there are, here and elsewhere."""
        return len(self.placed)


class Topics:
    """Every topic this broker serves, by name and by id."""

    def __init__(self, cluster: ClusterCatalog, configs: ConfigValues) -> None:
        self._cluster = cluster
        self._configs = configs
        self._by_name: dict[TopicName, ServedTopic] = {}
        self._by_id: dict[TopicId, ServedTopic] = {}
        self._changing = asyncio.Lock()
        self.following: Following  # set by the broker, before anything changes

    def get(self, name: str) -> ServedTopic | None:
        return self._by_name.get(TopicName(name))

    def by_id(self, topic_id: bytes) -> ServedTopic | None:
        return self._by_id.get(TopicId(topic_id))

    def __iter__(self) -> Iterator[ServedTopic]:
        """In the order of names; a snapshot, because topics may come and go meanwhile."""
        return iter(sorted(self._by_name.values(), key=lambda topic: topic.name))

    def __len__(self) -> int:
        return len(self._by_name)

    def has(self, name: str, partition: int) -> bool:
        """Whether there is such a partition, here or elsewhere."""
        topic = self._by_name.get(TopicName(name))
        return topic is not None and 0 <= partition < topic.partitions

    def check_new(self, new: TopicToCreate) -> tuple[int, dict[str, str]]:
        """The partition count and the overrides a new topic would get, or RefusedError."""
        self._check_name(new.name)
        partitions = self._count_partitions(new)
        if partitions > MAX_PARTITIONS:
            raise RefusedError(
                ErrorCode.INVALID_PARTITIONS, f"Number of partitions must be at most {MAX_PARTITIONS}."
            )
        return partitions, check_topic_configs(new.configs or {})

    async def create(self, new: TopicToCreate) -> ServedTopic:
        """Create a topic durably, or RefusedError; when this returns, clients can produce to it."""
        async with self._changing:
            partitions, overrides = self.check_new(new)
            topic = Topic(TopicName(new.name), new_topic_id(), partitions, overrides)
            ahead = await self.following.open_ahead(topic, 0)
            try:
                await self._cluster.create_topic(topic, assigned=_assigned(new))
            except BaseException:
                self.following.abandon(ahead)
                raise
            await self.following.settled()
            return self._by_id[topic.topic_id]

    async def delete(self, topic: ServedTopic) -> None:
        """Remove a topic from the catalog, then from everywhere else.

        What cannot be removed now is removed later: the catalog remembers until the next start.
        """
        async with self._changing:
            await self._cluster.delete_topic(topic.name)
            await self.following.settled()

    async def add_partitions(self, topic: ServedTopic, total: int, assigned: Sequence[NodeId] = ()) -> None:
        async with self._changing:
            served = self._served(topic)
            known = self._cluster.topics[served.name]
            ahead = await self.following.open_ahead(replace(known, partitions=total), served.partitions)
            try:
                await self._cluster.add_partitions(topic.name, total, assigned=assigned)
            except BaseException:
                self.following.abandon(ahead)
                raise
            await self.following.settled()

    async def set_configs(self, topic: ServedTopic, configs: Mapping[str, str]) -> None:
        """Replace the overrides of a topic; they are in force when this returns."""
        async with self._changing:
            self._served(topic)
            await self._cluster.set_topic_configs(topic.name, configs)

    def _served(self, topic: ServedTopic) -> ServedTopic:
        """A topic as it is served now: it may have changed, or gone, while a change waited for its turn."""
        served = self._by_id.get(topic.topic_id)
        if served is None:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic.name!r}")
        return served

    def replace_log(self, log: Log) -> None:
        """A failed log has been recovered: serve the new one."""
        topic = self._by_id.get(log.topic_id)
        if topic is not None and log.partition.partition in topic.logs:
            topic.logs[log.partition.partition] = log

    def _check_name(self, name: str) -> None:
        if not is_legal_name(name):
            raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, why_illegal(name))
        if TopicName(name) in self._by_name:
            raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "." in name or "_" in name:
            key = collision_key(name)
            for other in self._by_name:
                if collision_key(other) == key:
                    raise RefusedError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"Topic '{name}' collides with existing topic: {other}",
                    )

    def _count_partitions(self, new: TopicToCreate) -> int:
        if new.assignment:
            self._check_assignment(new)
            return len(new.assignment)
        nodes = len(self._cluster.view.nodes)
        if new.replication_factor != -1 and not 1 <= new.replication_factor <= nodes:
            raise RefusedError(
                ErrorCode.INVALID_REPLICATION_FACTOR, _replication_error(new.replication_factor, nodes)
            )
        if new.partitions == -1:
            return self._configs.number("num.partitions")
        if new.partitions < 1:
            raise RefusedError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        return new.partitions

    def _check_assignment(self, new: TopicToCreate) -> None:
        assignment = new.assignment or {}
        if new.partitions != -1 or new.replication_factor != -1:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions or replicationFactor was"
                " not set to -1.",
            )
        if sorted(assignment) != list(range(len(assignment))):
            raise RefusedError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based range"
            )
        self.check_replicas(assignment.values())

    def check_replicas(self, assignment: Iterable[list[int]]) -> None:
        """Raise INVALID_REPLICA_ASSIGNMENT unless each partition is given to one node that is alive."""
        nodes = {node.node_id for node in self._cluster.view.nodes.values() if not node.is_leaving}
        if any(len(replicas) != 1 or replicas[0] not in nodes for replicas in assignment):
            raise RefusedError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "this cluster has one broker: each partition goes to it"
                if len(nodes) == 1
                else "each partition has one replica, on a broker that is alive",
            )

    def specs(self, topic: Topic, epochs: Mapping[int, LeaderEpoch]) -> list[LogSpec]:
        """What is needed to open the logs of partitions, each at its epoch."""
        config = self._log_config(topic)
        return [
            LogSpec(
                partition=TopicPartition(topic.name, Partition(index)),
                topic_id=topic.topic_id,
                leader_epoch=epoch,
                config=config,
            )
            for index, epoch in epochs.items()
        ]

    def drop(self, topic: ServedTopic) -> None:
        """A topic is gone."""
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]

    def show(self, placed: PlacedTopic) -> ServedTopic:
        """Make a topic visible as the view has it, and bring its open logs in line with it."""
        topic = placed.topic
        config = self._log_config(topic)
        old = self._by_id.get(topic.topic_id)
        logs = old.logs if old is not None else {}  # one for all versions: group shards look here
        for log in logs.values():
            log.reconfigure(config)
        number = partial(self._configs.topic_number, topic.configs)
        served = ServedTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            placed=placed.partitions,
            logs=logs,
            lost=old.lost if old is not None else {},
            configs=topic.configs,
            max_message_bytes=number("max.message.bytes"),
            segment_bytes=number("segment.bytes"),
            compacted=Cleanup.COMPACT in config.cleanup,
            log_append_time=config.log_append_time,
            timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
            codec=_CODECS.get(self._configs.topic_text(topic.configs, "compression.type")),
        )
        self._by_name[topic.name] = self._by_id[topic.topic_id] = served
        return served

    def _log_config(self, topic: Topic) -> LogConfig:
        text = partial(self._configs.topic_text, topic.configs)
        cleanup = Cleanup(0)
        for policy in split_list(text("cleanup.policy")):
            cleanup |= Cleanup[policy.upper()]
        return LogConfig(
            segment_bytes=int(text("segment.bytes")),
            segment_ms=int(text("segment.ms")),
            retention_ms=int(text("retention.ms")),
            retention_bytes=int(text("retention.bytes")),
            cleanup=cleanup,
            delete_retention_ms=int(text("delete.retention.ms")),
            min_cleanable_dirty_ratio=float(text("min.cleanable.dirty.ratio")),
            min_compaction_lag_ms=int(text("min.compaction.lag.ms")),
            max_compaction_lag_ms=int(text("max.compaction.lag.ms")),
            index_interval_bytes=int(text("index.interval.bytes")),
            log_append_time=text("message.timestamp.type") == "LogAppendTime",
            internal=topic.name == CONSUMER_OFFSETS,  # the journal may lose its last moment
        )


def _assigned(new: TopicToCreate) -> list[NodeId]:
    """The node of each partition, if they were chosen."""
    assignment = new.assignment or {}
    return [NodeId(assignment[index][0]) for index in sorted(assignment)]


def _replication_error(factor: int, nodes: int) -> str:
    if factor < 1:
        return "Replication factor must be larger than 0, or -1 to use the default value."
    brokers = "1 broker" if nodes == 1 else f"{nodes} brokers"
    return f"Unable to replicate the partition {factor} time(s): this cluster has {brokers}."


def offsets_topic(configs: ConfigValues) -> TopicToCreate:
    """``__consumer_offsets`` as the broker's own settings want it."""
    return TopicToCreate(
        CONSUMER_OFFSETS,
        configs.number("offsets.topic.num.partitions"),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": configs.text("offsets.topic.segment.bytes"),
        },
    )
