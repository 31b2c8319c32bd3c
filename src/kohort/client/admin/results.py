"""What :class:`kohort.client.admin.Admin` takes and returns."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from typing import NamedTuple

from kohort.client.metadata import Node
from kohort.model.ids import GroupId, LeaderEpoch, NodeId, Offset, TopicId, TopicName
from kohort.model.topics import TopicPartition

BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; what is left at BROKER_DEFAULT, the broker decides."""

    name: str
    _: KW_ONLY
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic as it was created; numbers are BROKER_DEFAULT if the broker is too old to tell."""

    name: TopicName
    topic_id: TopicId
    partitions: int
    replication_factor: int


class ResourceType(IntEnum):
    """What has configs; codes of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """Something that has configs, by name; a broker's name is its node id, "" the default of all."""

    type: ResourceType
    name: str


class Source(IntEnum):
    """Where the value of a config comes from; codes of DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def of(cls, code: int) -> "Source":
        return cls(code) if code in set(cls) else cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One config of a resource. A sensitive one has no value."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether it was never set."""
        return self.source is Source.DEFAULT


class ListedOffset(NamedTuple):
    """An offset found by time or end; ``timestamp`` and ``leader_epoch`` are -1 where they mean nothing.

    The offset is -1 when no record is as new as the time asked for.
    """

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


class LogSize(NamedTuple):
    """How much disk one replica takes."""

    partition: TopicPartition
    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """One directory of a broker; the volume's sizes are -1 where unknown."""

    node_id: NodeId
    path: str
    replicas: tuple[LogSize, ...]
    total_bytes: int
    usable_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """The nodes of a cluster and which of them takes administrative writes."""

    cluster_id: str | None
    controller_id: NodeId
    nodes: tuple[Node, ...]


class ListedGroup(NamedTuple):
    """One line of a listing. ``state`` and ``type`` are empty if the broker is too old to tell."""

    group_id: GroupId
    protocol_type: str
    state: str
    type: str
    coordinator: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInfo:
    """One member. ``target`` is what a KIP-848 member is on its way to; None in a classic group.

    ``protocol`` is "classic" or "consumer"; a consumer group can have members of both while it migrates.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    subscribed: tuple[str, ...] = ()
    expression: str = ""
    protocol: str = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """One group with its members. ``epoch`` is that of a KIP-848 group, None in a classic one.

    ``target_epoch`` is the epoch for which the target assignment was computed; it lags while none is.
    """

    group_id: GroupId
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[MemberInfo, ...]
    epoch: int | None = None
    target_epoch: int | None = None


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition."""

    offset: Offset
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    metadata: str = ""
