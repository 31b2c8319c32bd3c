"""What a request gets back. One body for each API, in the core's words; the broker encodes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kohort.groups.commands import NO_GENERATION, NO_MEMBER
from kohort.model.errors import ErrorCode
from kohort.model.ids import (
    Generation,
    GroupId,
    InstanceId,
    MemberId,
    Partition,
    TopicId,
    TopicName,
)


class JoinedMember(NamedTuple):
    """A member as the leader's answer lists it."""

    member_id: MemberId
    instance_id: InstanceId | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    """Answer to Join. ``members`` is filled for the leader only.

    ``protocol_name`` is ``None`` on errors; below version 7 the broker writes ``""`` for it.
    """

    error: ErrorCode = ErrorCode.NONE
    generation: Generation = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: MemberId = NO_MEMBER
    member_id: MemberId = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    """Answer to Sync: the member's own assignment."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """Answer to Heartbeat."""

    error: ErrorCode = ErrorCode.NONE


class LeftMember(NamedTuple):
    """What became of one leaver; ids as they were sent."""

    member_id: MemberId
    instance_id: InstanceId | None
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReply:
    """Answer to Leave, members in request order; empty after a top-level error."""

    error: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()


class AssignedTopic(NamedTuple):
    """Partitions of one topic that a member of a consumer group is to have."""

    topic_id: TopicId
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReply:
    """Answer to ConsumerHeartbeat. An assignment of ``None`` is unchanged, an empty one has nothing in it."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    member_id: MemberId | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[AssignedTopic, ...] | None = None


class CommittedRow(NamedTuple):
    """What became of one committed partition."""

    topic: TopicName
    partition: Partition
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReply:
    """Answer to CommitOffsets, rows in request order. There is no top-level error in this API."""

    rows: tuple[CommittedRow, ...] = ()


class FetchedOffset(NamedTuple):
    """One partition of a FetchReply; nothing committed is offset -1, epoch -1, metadata ``""``."""

    topic: TopicName
    partition: Partition
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply:
    """Answer to FetchOffsets: rows in request order, or everything stored; none after an error."""

    error: ErrorCode = ErrorCode.NONE
    rows: Sequence[FetchedOffset] = ()


class DeletedOffset(NamedTuple):
    """What became of one partition of DeleteOffsets."""

    topic: TopicName
    partition: Partition
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsReply:
    """Answer to DeleteOffsets; a top-level error replaces all rows."""

    error: ErrorCode = ErrorCode.NONE
    rows: tuple[DeletedOffset, ...] = ()


class GroupListing(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: GroupId
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListReply:
    """Answer to ListGroups."""

    error: ErrorCode = ErrorCode.NONE
    groups: tuple[GroupListing, ...] = ()


class DescribedMember(NamedTuple):
    """A member as DescribeGroups shows it."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeReply:
    """Answer to DescribeGroup."""

    group_id: GroupId
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


class NamedAssignedTopic(NamedTuple):
    """Partitions of one topic, as ConsumerGroupDescribe shows them."""

    topic_id: TopicId
    topic: TopicName
    partitions: tuple[Partition, ...]


class DescribedConsumerMember(NamedTuple):
    """A member as ConsumerGroupDescribe shows it."""

    member_id: MemberId
    instance_id: InstanceId | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    names: tuple[TopicName, ...]
    expression: str
    assignment: tuple[NamedAssignedTopic, ...]
    target: tuple[NamedAssignedTopic, ...]
    is_classic: bool  # MemberType 0; else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDescribeReply:
    """Answer to DescribeConsumerGroup. Topics that do not exist any more are left out."""

    group_id: GroupId
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()


class DeletedGroup(NamedTuple):
    """What became of one group of DeleteGroups."""

    group_id: GroupId
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsReply:
    """Answer to DeleteGroups, each id once, in the order first named."""

    groups: tuple[DeletedGroup, ...] = ()


ReplyBody: TypeAlias = (
    JoinReply
    | SyncReply
    | HeartbeatReply
    | LeaveReply
    | ConsumerHeartbeatReply
    | CommitReply
    | FetchReply
    | DeleteOffsetsReply
    | ListReply
    | DescribeReply
    | ConsumerDescribeReply
    | DeleteGroupsReply
)
