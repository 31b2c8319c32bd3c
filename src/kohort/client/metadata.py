"""What a client knows of a cluster: nodes, topics, leaders. A snapshot is replaced, never edited.

So code that kept an older one across an ``await`` can tell, and nothing changes under a reader. No I/O.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.client.addresses import Address
from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID, LeaderEpoch, NodeId, Partition, TopicId, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_NODE = NodeId(-1)


class Node(NamedTuple):
    """One broker, at the address it tells clients to use."""

    node_id: NodeId
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


class PartitionInfo(NamedTuple):
    """One partition as Metadata shows it; ``leader`` is NO_NODE while there is none."""

    partition: Partition
    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic and its partitions, in order of their numbers."""

    name: TopicName
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    def partition(self, number: int) -> PartitionInfo | None:
        if 0 <= number < len(self.partitions) and self.partitions[number].partition == number:
            return self.partitions[number]
        return next((found for found in self.partitions if found.partition == number), None)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Nodes and topics at one time. ``problems`` has the error of each topic that was asked for in vain."""

    cluster_id: str | None = None
    controller_id: NodeId = NO_NODE
    nodes: Mapping[NodeId, Node] = field(default_factory=dict)
    topics: Mapping[TopicName, TopicInfo] = field(default_factory=dict)
    problems: Mapping[TopicName, int] = field(default_factory=dict)

    def topic(self, name: str) -> TopicInfo:
        """The topic of that name; raises UnknownTopicError, or BrokerError if it is there but troubled."""
        found = self.topics.get(TopicName(name))
        if found is not None:
            return found
        code = self.problems.get(TopicName(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(name)
        raise BrokerError(code, f"look up topic {name!r}")

    def name_of(self, topic_id: bytes) -> TopicName | None:
        """The name behind an id, as far as known."""
        if topic_id == NO_TOPIC_ID:
            return None
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def leader(self, name: str, number: int) -> NodeId:
        """Who leads a partition; BrokerError to be retried while no node does, else UnknownTopicError."""
        topic = self.topic(name)
        found = topic.partition(number)
        if found is None:
            raise UnknownTopicError(
                name, f"no partition {number}: it has the partitions 0 to {len(topic.partitions) - 1}"
            )
        if found.leader == NO_NODE:
            raise BrokerError(
                found.error_code or ErrorCode.LEADER_NOT_AVAILABLE, f"find the leader of {name}-{number}"
            )
        return found.leader

    def knows(self, partition: TopicPartition) -> bool:
        topic = self.topics.get(partition.topic)
        return topic is not None and topic.partition(partition.partition) is not None

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[NodeId, list[TopicPartition]]:
        """The partitions sorted by who leads them; raises as ``leader`` does."""
        led: dict[NodeId, list[TopicPartition]] = {}
        for partition in partitions:
            led.setdefault(self.leader(*partition), []).append(partition)
        return led

    def without_topics(self, names: Iterable[str]) -> "Metadata":
        """As if it had never been asked for these."""
        gone = set(names)
        return replace(
            self,
            topics={name: topic for name, topic in self.topics.items() if name not in gone},
            problems={name: code for name, code in self.problems.items() if name not in gone},
        )


def merge(known: Metadata, response: MetadataResponse, *, whole: bool) -> Metadata:
    """What is known after a reply. ``whole``: it named all topics, so that those it lacks are gone."""
    topics: dict[TopicName, TopicInfo] = {} if whole else dict(known.topics)
    problems: dict[TopicName, int] = {} if whole else dict(known.problems)
    for answered in response.topics:
        if answered.name is None:
            continue  # asked for by an id that leads nowhere
        name = TopicName(answered.name)
        if _is_usable(answered):
            topics[name] = _topic(answered, known.topics.get(name))
            problems.pop(name, None)
        else:
            topics.pop(name, None)
            problems[name] = answered.error_code
    nodes = {
        NodeId(broker.node_id): Node(NodeId(broker.node_id), broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }
    return Metadata(
        cluster_id=response.cluster_id or known.cluster_id,
        controller_id=NodeId(response.controller_id),
        nodes=nodes or known.nodes,  # a reply without brokers is one of a broker that is starting
        topics=topics,
        problems=problems,
    )


class LeaderHint(NamedTuple):
    """Who leads a partition, as another node says it in its reply (KIP-951)."""

    node_id: NodeId
    epoch: LeaderEpoch


def adopt_leaders(
    known: Metadata, leaders: Mapping[TopicPartition, LeaderHint], nodes: Iterable[Node]
) -> Metadata:
    """What is known after such hints: those of a newer epoch count, if the address of the leader is known."""
    all_nodes = {**known.nodes, **{node.node_id: node for node in nodes}}
    topics = dict(known.topics)
    for (name, number), leader in leaders.items():
        topic = topics.get(name)
        found = topic.partition(number) if topic is not None else None
        if topic is None or found is None or leader.epoch <= found.leader_epoch:
            continue
        if leader.node_id in all_nodes:
            moved = found._replace(leader=leader.node_id, leader_epoch=leader.epoch)
            partitions = tuple(moved if each is found else each for each in topic.partitions)
            topics[name] = replace(topic, partitions=partitions)
    return replace(known, nodes=all_nodes, topics=topics)


def _is_usable(answered: MetadataResponseTopic) -> bool:
    return answered.error_code in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE)


def _topic(answered: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    topic_id = TopicId(answered.topic_id)
    same = known if known is not None and known.topic_id == topic_id else None
    partitions = [_partition(one, same) for one in answered.partitions]
    return TopicInfo(
        name=TopicName(answered.name or ""),
        topic_id=topic_id,
        is_internal=answered.is_internal,
        partitions=tuple(sorted(partitions)),
    )


def _partition(answered: MetadataResponsePartition, topic: TopicInfo | None) -> PartitionInfo:
    known = topic.partition(answered.partition_index) if topic is not None else None
    if known is not None and 0 <= answered.leader_epoch < known.leader_epoch:
        return known  # a broker that lags behind: the epoch of a partition never goes back
    return PartitionInfo(
        partition=Partition(answered.partition_index),
        leader=NodeId(answered.leader_id),
        leader_epoch=LeaderEpoch(answered.leader_epoch),
        replicas=tuple(answered.replica_nodes),
        in_sync=tuple(answered.isr_nodes),
        offline=tuple(answered.offline_replicas),
        error_code=answered.error_code,
    )


def coordinator_in(response: FindCoordinatorResponse) -> Coordinator:
    """The answer to a question for one; before version 4 the response is itself the entry."""
    if len(response.coordinators) > 1:
        return Coordinator(
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="more coordinators than were asked for"
        )
    if response.coordinators:
        return response.coordinators[0]
    return Coordinator(
        node_id=response.node_id,
        host=response.host,
        port=response.port,
        error_code=response.error_code,
        error_message=response.error_message,
    )
