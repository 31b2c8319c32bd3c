"""What became true: the facts ``apply`` makes of a shard's state, each with its cause.

Most events are *soft*: they live in memory and in the journal. The *durable* ones (``DurableEvent``) are
records of ``__consumer_offsets``.
All are true for the shard as soon as they are emitted; replies that show a durable one wait for the log.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, get_args

from kohort.groups.causes import Cause
from kohort.groups.commands import Protocol
from kohort.groups.consumer.events import ConsumerGroupEvent, ConsumerGroupLoaded
from kohort.model.errors import ErrorCode
from kohort.model.ids import (
    NO_TOPIC_ID,
    Generation,
    GroupId,
    InstanceId,
    MemberId,
    Partition,
    ReplyTo,
    TopicId,
    TopicName,
    WallTime,
)


class MemberImage(NamedTuple):
    """A member as a group record stores it: with the metadata of the selected protocol only."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupImage(NamedTuple):
    """A group as the log stores it: what survives a restart."""

    protocol_type: str  # "" is none
    generation: Generation
    protocol: str | None
    leader: MemberId | None
    state_timestamp: WallTime  # -1 is unknown
    members: tuple[MemberImage, ...]


class OffsetRow(NamedTuple):
    """A committed offset."""

    topic: TopicName
    partition: Partition
    offset: int
    leader_epoch: int  # -1 is none
    metadata: str
    commit_timestamp: WallTime
    expire_timestamp: int = -1  # -1 is none
    topic_id: TopicId = NO_TOPIC_ID


# --- a group comes and goes -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupCreated:
    """An empty group exists. Nothing is written for it (Kafka writes a record; see the docs)."""

    group_id: GroupId
    at: WallTime
    cause: Cause


@dataclass(frozen=True, slots=True)
class GroupLoaded:
    """The log has this group; ``image`` is ``None`` for one that only has offsets."""

    group_id: GroupId
    image: GroupImage | None
    cause: Cause


@dataclass(frozen=True, slots=True)
class GroupDied:
    """This node does not serve the group any more; everyone parked was sent away."""

    group_id: GroupId
    at: WallTime
    cause: Cause


# --- members ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdReserved:
    """An id was handed out; the group waits for it when it rebalances."""

    group_id: GroupId
    member_id: MemberId
    cause: Cause


@dataclass(frozen=True, slots=True)
class IdDropped:
    """A handed-out id will not be waited for any longer."""

    group_id: GroupId
    member_id: MemberId
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberAdded:
    """A new member; its join is parked under ``reply_to``."""

    group_id: GroupId
    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reply_to: ReplyTo
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberUpdated:
    """A known member brought new protocols and timeouts."""

    group_id: GroupId
    member_id: MemberId
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    cause: Cause


@dataclass(frozen=True, slots=True)
class JoinParked:
    """A known member waits for the join phase to end."""

    group_id: GroupId
    member_id: MemberId
    reply_to: ReplyTo
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberReplaced:
    """A static member has a new id; everything else of it stays. Requests parked by the old id are gone."""

    group_id: GroupId
    instance_id: InstanceId
    old_member_id: MemberId
    member_id: MemberId
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """A member is gone, with what it had parked."""

    group_id: GroupId
    member_id: MemberId
    cause: Cause


@dataclass(frozen=True, slots=True)
class LeaderChosen:
    """Another member leads, because the leader is gone or has not joined."""

    group_id: GroupId
    leader: MemberId
    cause: Cause


# --- phases -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RebalanceStarted:
    """→ PreparingRebalance: members have to join again."""

    group_id: GroupId
    at: WallTime
    cause: Cause


@dataclass(frozen=True, slots=True)
class InitialDelayExtended:
    """Members came during the initial delay: it is waited again."""

    group_id: GroupId
    delay_ms: int
    remaining_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class JoinPhaseExtended:
    """Only absent static members are left: the rebalance timeout is waited again."""

    group_id: GroupId
    timeout_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """→ CompletingRebalance: all parked joins are answered, everyone has to sync.

    ``subscribed`` is ``None`` when the members' subscriptions cannot be read.
    """

    group_id: GroupId
    generation: Generation
    protocol: str
    subscribed: frozenset[TopicName] | None
    at: WallTime
    cause: Cause


@dataclass(frozen=True, slots=True)
class GenerationEmptied:
    """→ Empty: the join phase ended with no members."""

    group_id: GroupId
    generation: Generation
    at: WallTime
    cause: Cause


@dataclass(frozen=True, slots=True)
class SyncParked:
    """A member waits for the leader's assignment."""

    group_id: GroupId
    member_id: MemberId
    reply_to: ReplyTo
    cause: Cause


@dataclass(frozen=True, slots=True)
class SyncServed:
    """A member took its stored assignment from a stable group."""

    group_id: GroupId
    member_id: MemberId
    cause: Cause


@dataclass(frozen=True, slots=True)
class AssignmentDropped:
    """The assignment in the making is void: all parked syncs are answered with ``error``."""

    group_id: GroupId
    error: ErrorCode
    cause: Cause


@dataclass(frozen=True, slots=True)
class AssignmentReceived:
    """→ Stable: every parked sync is answered when the assignment is stored."""

    group_id: GroupId
    generation: Generation
    assignments: tuple[tuple[MemberId, bytes], ...]
    at: WallTime
    cause: Cause


# --- durable ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupStored:
    """The group is ``image``, for the shard now and for the log in a moment."""

    group_id: GroupId
    image: GroupImage
    cause: Cause


@dataclass(frozen=True, slots=True)
class GroupTombstoned:
    """There is no group of this id any more: it was deleted, or nothing was left of it."""

    group_id: GroupId
    cause: Cause


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """These offsets are committed; of a repeated partition the last row counts."""

    group_id: GroupId
    rows: tuple[OffsetRow, ...]
    cause: Cause


@dataclass(frozen=True, slots=True)
class OffsetsDeleted:
    """There are no offsets for these partitions any more."""

    group_id: GroupId
    partitions: tuple[tuple[TopicName, Partition], ...]
    cause: Cause


SoftEvent: TypeAlias = (
    GroupCreated
    | GroupLoaded
    | GroupDied
    | IdReserved
    | IdDropped
    | MemberAdded
    | MemberUpdated
    | JoinParked
    | MemberReplaced
    | MemberRemoved
    | LeaderChosen
    | RebalanceStarted
    | InitialDelayExtended
    | JoinPhaseExtended
    | GenerationStarted
    | GenerationEmptied
    | SyncParked
    | SyncServed
    | AssignmentDropped
    | AssignmentReceived
    | ConsumerGroupLoaded
)
DurableEvent: TypeAlias = (
    GroupStored | GroupTombstoned | OffsetsCommitted | OffsetsDeleted | ConsumerGroupEvent
)
Event: TypeAlias = SoftEvent | DurableEvent
DURABLE: frozenset[type[DurableEvent]] = frozenset(get_args(DurableEvent))
