"""What a node knows of the cluster: its nodes, and who leads which partition (cluster 2.3).

A view is replaced, never edited. Every node has its own, and some are older than others.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, NewType

from kohort.cluster.lease import SessionId
from kohort.model.ids import LeaderEpoch, NodeId, TopicName
from kohort.model.topics import Topic, TopicPartition

PartitionId = NewType("PartitionId", int)  # of a row, in the whole cluster


class PartitionKind(Enum):
    """Partitions of one kind are spread over the nodes by themselves."""

    SHARD = auto()  # of ``__consumer_offsets``, with the partition of the journal that belongs to it
    DATA = auto()


class ListenerAddress(NamedTuple):
    """Where clients of one listener reach a node."""

    name: str
    host: str
    port: int


class PlacedNode(NamedTuple):
    """A session that is not dead. One that is leaving gives away what it leads, and gets nothing.

    ``listeners`` is empty where only one address is known, which is ``host`` and ``port``.
    """

    session: SessionId
    node_id: NodeId
    is_leaving: bool = False
    host: str = ""
    port: int = 0
    rack: str | None = None
    listeners: tuple[ListenerAddress, ...] = ()

    def at(self, listener: str) -> "PlacedNode | None":
        """The node with its address for clients of a listener; ``None`` if it has no such listener."""
        if not self.listeners:
            return self
        for name, host, port in self.listeners:
            if name == listener:
                return self._replace(host=host, port=port)
        return None


class ChangeReason(Enum):
    """Why a partition got another leader, or the same one at a higher epoch. The values are in the tables."""

    NEW = "new"  # it had none
    DEATH = "death"  # the lease of its leader ended
    FORGOTTEN = "forgotten"  # an administrator declared its leader dead
    HANDOVER = "handover"  # its leader stopped or was drained
    MOVE = "move"  # an administrator chose the node
    BALANCE = "balance"  # nodes share partitions evenly
    AGAIN = "again"  # its leader could not append, or the database lost records


class LeaderChange(NamedTuple):
    """The last change of a partition's leader. ``silent_ms``: since the last sign of the leader before."""

    reason: ChangeReason
    from_node: NodeId | None
    silent_ms: int


class Placed(NamedTuple):
    """A partition and its leader. ``moves_with``: it always has the leader of that other partition.

    ``assigned``: the node that was chosen by hand, as long as it does not go.
    """

    partition_id: PartitionId
    kind: PartitionKind
    leader: SessionId | None
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    served_epoch: LeaderEpoch = LeaderEpoch(-1)
    moves_with: PartitionId | None = None
    assigned: NodeId | None = None
    change: LeaderChange | None = None

    @property
    def is_loading(self) -> bool:
        return self.served_epoch < self.leader_epoch


class PlacedTopic(NamedTuple):
    """A topic with its partitions, by index."""

    topic: Topic
    partitions: Sequence[Placed]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster as one node sees it. ``version`` grows with every change of the tables."""

    version: int = 0
    nodes: Mapping[SessionId, PlacedNode] = field(default_factory=dict)
    partitions: Mapping[PartitionId, Placed] = field(default_factory=dict)
    topics: Mapping[TopicName, PlacedTopic] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    changed: Collection[TopicName] | None = None  # the topics that the version before has not so, if known

    def leader_of(self, partition: Placed) -> PlacedNode | None:
        """The node that leads; ``None`` for an orphan, whose leader is none or dead."""
        return None if partition.leader is None else self.nodes.get(partition.leader)

    def placed(self, partition: TopicPartition) -> Placed | None:
        """Where a partition is; ``None`` if it does not exist."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def changed_since(self, old: "ClusterSnapshot") -> Collection[TopicName]:
        """The topics that are new, gone, or not as they were."""
        if self.changed is not None and self.version == old.version + 1:
            return self.changed
        gone = [name for name in old.topics if name not in self.topics]
        return gone + [name for name, topic in self.topics.items() if old.topics.get(name) != topic]
