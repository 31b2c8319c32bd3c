"""What a node knows of the cluster: its nodes, and who leads which partition (cluster 2.3).

A view is replaced, never edited. Every node has its own, and some are older than others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, NewType

from kohort.cluster.lease import SessionId
from kohort.model.ids import LeaderEpoch, NodeId

PartitionId = NewType("PartitionId", int)  # of a row, in the whole cluster


class Kind(Enum):
    """Partitions of one kind are spread over the nodes by themselves."""

    SHARD = auto()  # of ``__consumer_offsets``, with the partition of the journal that belongs to it
    DATA = auto()


class Node(NamedTuple):
    """A session that is not dead. One that is leaving gives away what it leads, and gets nothing."""

    session: SessionId
    node_id: NodeId
    is_leaving: bool = False
    host: str = ""
    port: int = 0
    rack: str | None = None


class Placed(NamedTuple):
    """A partition and its leader. ``moves_with``: it always has the leader of that other partition."""

    partition_id: PartitionId
    kind: Kind
    leader: SessionId | None
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    served_epoch: LeaderEpoch = LeaderEpoch(-1)
    moves_with: PartitionId | None = None

    @property
    def is_loading(self) -> bool:
        return self.served_epoch < self.leader_epoch


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as one node sees it. ``version`` grows with every change of the tables."""

    version: int = 0
    nodes: Mapping[SessionId, Node] = field(default_factory=dict)
    partitions: Mapping[PartitionId, Placed] = field(default_factory=dict)

    def leader_of(self, partition: Placed) -> Node | None:
        """The node that leads; ``None`` for an orphan, whose leader is none or dead."""
        return None if partition.leader is None else self.nodes.get(partition.leader)
