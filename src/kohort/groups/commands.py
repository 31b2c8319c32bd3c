"""What may be asked of a shard: requests of clients, orders of the shell.

A request carries ``reply_to``, the name under which its one reply comes back. Time is not in a
command: ``Shard.handle`` takes it beside. Authorization and the existence of topics are checked
by the broker before a command is made.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kohort.assign.server.group import GroupSpec
from kohort.coordination.outcome import KeyValue
from kohort.model.errors import ErrorCode
from kohort.model.ids import (
    NO_TOPIC_ID,
    Generation,
    GroupId,
    InstanceId,
    Instant,
    MemberId,
    Partition,
    ReplyTo,
    TopicId,
    TopicName,
    WallTime,
)

if TYPE_CHECKING:
    from kohort.groups.events import DurableEvent

NO_MEMBER = MemberId("")  # what a client sends that has no member id yet
NO_GENERATION = Generation(-1)  # what a client sends that is in none


class Protocol(NamedTuple):
    """One way of assigning that a member offers, with what it says about itself for it."""

    name: str
    metadata: bytes


# --- membership -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """JoinGroup, any version."""

    reply_to: ReplyTo
    group_id: GroupId
    member_id: MemberId = NO_MEMBER
    instance_id: InstanceId | None = None
    protocol_type: str = "consumer"
    protocols: tuple[Protocol, ...] = ()
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    reason: str | None = None
    version: int = 9
    fresh_id: str = ""  # a new UUID in text form, used if this request needs a new member id

    @property
    def requires_known_member_id(self) -> bool:
        """KIP-394: a dynamic member without an id is first sent away with one."""
        return self.version >= 4 and self.instance_id is None

    @property
    def supports_skip_assignment(self) -> bool:
        """KIP-814: the answer can tell a returned static leader not to assign."""
        return self.version >= 9

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """Version 0 had no rebalance timeout: the session timeout served for both."""
        return self.session_timeout_ms if self.version == 0 else self.rebalance_timeout_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """SyncGroup. Only the leader's ``assignments`` count.

    From version 5 on a null protocol type or name is refused; older requests have none.
    """

    reply_to: ReplyTo
    group_id: GroupId
    member_id: MemberId
    generation: Generation
    instance_id: InstanceId | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[MemberId, bytes], ...] = ()
    version: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Heartbeat. ``Shard.heartbeat`` answers the same question without a command object."""

    reply_to: ReplyTo
    group_id: GroupId
    member_id: MemberId
    generation: Generation
    instance_id: InstanceId | None = None


class Leaver(NamedTuple):
    """One entry of a LeaveGroup request."""

    member_id: MemberId = NO_MEMBER
    instance_id: InstanceId | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """LeaveGroup. Below version 3 there is one leaver, and its error becomes the reply's."""

    reply_to: ReplyTo
    group_id: GroupId
    leavers: tuple[Leaver, ...]
    version: int = 5


class OwnedTopic(NamedTuple):
    """Partitions of one topic that a member of a consumer group says it has."""

    topic_id: TopicId
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat: join (epoch 0), go on, or leave (-1, -2). ``None`` and -1 mean "unchanged".

    The broker compiles the expression: ``expression_error`` says what is wrong with it, if anything is.
    ``principal`` is handed through to ``ResolveExpressions``.
    """

    reply_to: ReplyTo
    group_id: GroupId
    member_id: MemberId = NO_MEMBER
    member_epoch: int = 0
    instance_id: InstanceId | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    names: tuple[TopicName, ...] | None = None  # SubscribedTopicNames
    expression: str | None = None  # SubscribedTopicRegex
    server_assignor: str | None = None
    owned: tuple[OwnedTopic, ...] | None = None  # TopicPartitions
    client_id: str = ""
    client_host: str = ""
    version: int = 1
    fresh_id: str = ""  # a new member id, used if a request of version 0 has none
    expression_error: str | None = None
    principal: str = ""


# --- offsets ----------------------------------------------------------------------------------


class CommitRow(NamedTuple):
    """One partition of an OffsetCommit request."""

    topic: TopicName
    partition: Partition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: TopicId = NO_TOPIC_ID


class CommitOffsets(NamedTuple):
    """OffsetCommit, without the partitions the broker has already refused.

    ``generation`` is the member epoch where the group is a consumer group.
    """

    reply_to: ReplyTo
    group_id: GroupId
    rows: tuple[CommitRow, ...]
    generation: Generation = NO_GENERATION
    member_id: MemberId = NO_MEMBER
    instance_id: InstanceId | None = None
    retention_ms: int = -1  # versions 2 to 4: the offset's own retention
    version: int = 10


class FetchTopic(NamedTuple):
    """The partitions of one topic an OffsetFetch request asks for."""

    topic: TopicName
    partitions: tuple[Partition, ...]
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """OffsetFetch of one group; ``topics=None`` asks for everything stored."""

    reply_to: ReplyTo
    group_id: GroupId
    topics: tuple[FetchTopic, ...] | None = None
    require_stable: bool = False
    member_id: MemberId | None = None  # version 9 and newer: a member of a consumer group, with its epoch
    member_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    """OffsetDelete, without the partitions the broker has already refused (possibly none left)."""

    reply_to: ReplyTo
    group_id: GroupId
    partitions: tuple[tuple[TopicName, Partition], ...]


# --- administration ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    """ListGroups, this shard's part; an empty filter restricts nothing."""

    reply_to: ReplyTo
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    """One group of a DescribeGroups request."""

    reply_to: ReplyTo
    group_id: GroupId
    version: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroup:
    """One group of a ConsumerGroupDescribe request."""

    reply_to: ReplyTo
    group_id: GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroups:
    """DeleteGroups, this shard's part; a repeated id is taken once."""

    reply_to: ReplyTo
    group_ids: tuple[GroupId, ...]


# --- orders of the shell ----------------------------------------------------------------------


class TopicImage(NamedTuple):
    """A topic as the coordinator knows it. ``racks`` has those of each partition's replicas, if known."""

    topic_id: TopicId
    name: TopicName
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """These topics were created or have more partitions. A shard gets the first picture when it is made.

    ``version`` counts the changes of all topics; it grows with each of them.
    """

    topics: tuple[TopicImage, ...]
    version: int


@dataclass(frozen=True, slots=True)
class GroupConfigured:
    """The configuration of one group has changed; ``None`` is "as the broker's". A shard gets the first
    values when it is made.
    """

    group_id: GroupId
    session_timeout_ms: int | None = None  # consumer.session.timeout.ms
    heartbeat_interval_ms: int | None = None  # consumer.heartbeat.interval.ms


@dataclass(frozen=True, slots=True)
class ExpressionsResolved:
    """The answer to ``ResolveExpressions``: which topics each expression matches, as of ``version``.

    An expression that could not be resolved is left out; a later heartbeat asks again.
    """

    group_id: GroupId
    topics: tuple[tuple[str, tuple[TopicName, ...]], ...]
    version: int
    started_at: WallTime


@dataclass(frozen=True, slots=True)
class TargetReady:
    """The answer to ``ComputeTarget``, as ``consumer.assigning.answer`` makes it: events and their records.

    ``None`` if the assignor failed: a later heartbeat asks again.
    """

    asked: "ComputeTarget"
    events: "tuple[DurableEvent, ...] | None"
    records: tuple[KeyValue, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic is gone: what groups had committed for it goes too, and members lose its partitions."""

    topic: TopicName


@dataclass(frozen=True, slots=True)
class SweepOffsets:
    """Forget offsets whose retention is over, and groups that have nothing left.

    The shard orders it for itself every retention check interval; a shell may do so earlier.
    """

    groups: tuple[GroupId, ...] | None = None  # None: all; a sweep that was interrupted names the rest


@dataclass(frozen=True, slots=True)
class Unload:
    """The shard goes: its partition moves, or its log has refused what the shard takes for true."""

    refused: ErrorCode | None = None  # what the log said


@dataclass(frozen=True, slots=True)
class Resume:
    """No request was answered, and no timer fired, for this long: the members are not to blame."""

    silent_ms: int


# --- timers that fired ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpireSession:
    """Nothing was heard of a member, a new member or a handed-out id until ``deadline``."""

    group_id: GroupId
    member_id: MemberId
    timeout_ms: int
    deadline: Instant


@dataclass(frozen=True, slots=True)
class ExpireSync:
    """The rebalance timeout passed since ``generation`` began."""

    group_id: GroupId
    generation: Generation
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ExpireRevocation:
    """A member of a consumer group had the whole rebalance timeout to give up partitions, and has not."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ExpireClassicMember:
    """A classic member of a consumer group has not sent JoinGroup or SyncGroup in the rebalance timeout."""

    group_id: GroupId
    member_id: MemberId
    awaited: str  # "JoinGroup" or "SyncGroup"
    timeout_ms: int


Request: TypeAlias = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | ConsumerHeartbeat
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | ListGroups
    | DescribeGroup
    | DescribeConsumerGroup
    | DeleteGroups
)
Fired: TypeAlias = ExpireSession | ExpireSync | ExpireRevocation | ExpireClassicMember | SweepOffsets
Order: TypeAlias = (
    TopicsChanged | TopicDeleted | GroupConfigured | ExpressionsResolved | TargetReady | Resume | Unload
)
Command: TypeAlias = Request | Order | Fired


# --- what a shard asks of the shell -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResolveExpressions:
    """Find the topics that these regular expressions match, and answer with ``ExpressionsResolved``.

    Only topics count that ``principal`` may describe. The shard asks for one answer of a group at a time.
    """

    group_id: GroupId
    expressions: tuple[str, ...]
    principal: str
    client_host: str
    started_at: WallTime


@dataclass(frozen=True, slots=True, eq=False)
class ComputeTarget:
    """Run an assignor, which takes long for this group, and answer with ``TargetReady``.

    That is ``consumer.assigning.answer``, which may run in a thread. The shard asks for one answer of a group
    at a time, and uses it if the group is still at ``epoch``.
    """

    group_id: GroupId
    epoch: int
    assignor: str
    spec: GroupSpec


Effect: TypeAlias = ResolveExpressions | ComputeTarget
