"""What becomes true of a consumer group. One durable event is one record of the log (modern-groups 15)."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kohort.assign.server.group import TopicPartitions
from kohort.groups.causes import Cause
from kohort.groups.commands import Protocol
from kohort.groups.consumer.assignment import CurrentAssignment
from kohort.model.ids import GroupId, InstanceId, MemberId, TopicName, WallTime


class ClassicDetails(NamedTuple):
    """What a consumer group keeps of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class MemberSubscription(NamedTuple):
    """What a member has a say in: its topics, and the assignor for the whole group."""

    names: tuple[TopicName, ...]  # sorted, each once
    expression: str  # a regular expression of topic names; "" is none
    server_assignor: str | None


class ConsumerMemberDetails(NamedTuple):
    """What a member of a consumer group says about itself, as its record has it."""

    instance_id: InstanceId | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    names: tuple[TopicName, ...] = ()  # sorted, each once
    expression: str = ""  # a regular expression of topic names; "" is none
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicDetails | None = None  # of a member that speaks the classic protocol

    @property
    def subscription(self) -> MemberSubscription:
        return MemberSubscription(self.names, self.expression, self.server_assignor)

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        return () if self.classic is None else self.classic.protocols


class ResolvedExpression(NamedTuple):
    """The topics that a regular expression matches; ``version`` is that of the topics it was matched with."""

    topics: tuple[TopicName, ...]
    version: int
    timestamp: WallTime


class LoadedMember(NamedTuple):
    """A member as the log has it."""

    member_id: MemberId
    details: ConsumerMemberDetails
    current: CurrentAssignment
    target: TopicPartitions


@dataclass(frozen=True, slots=True)
class ConsumerGroupLoaded:
    """The log has this consumer group; what it consists of was applied record by record."""

    group_id: GroupId
    epoch: int
    target_epoch: int
    members: int
    image: tuple[LoadedMember, ...]
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerGroupStored:
    """The group epoch of a consumer group, and the hash of the topics that it stands for."""

    group_id: GroupId
    epoch: int
    metadata_hash: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerGroupDropped:
    """There is no consumer group of this id any more; its members went before."""

    group_id: GroupId
    cause: Cause


@dataclass(frozen=True, slots=True)
class PartitionMetadataDropped:
    """The topics that Kafka 4.0 or older stored with the group are not needed."""

    group_id: GroupId
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerMemberStored:
    """A member of a consumer group is new, or says something else about itself."""

    group_id: GroupId
    member_id: MemberId
    details: ConsumerMemberDetails
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerMemberDropped:
    """A member of a consumer group is gone."""

    group_id: GroupId
    member_id: MemberId
    cause: Cause


@dataclass(frozen=True, slots=True)
class TargetEpochStored:
    """The target assignment of a consumer group is that of this group epoch."""

    group_id: GroupId
    epoch: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class TargetEpochDropped:
    """A consumer group has no target assignment any more."""

    group_id: GroupId
    cause: Cause


@dataclass(frozen=True, slots=True)
class TargetStored:
    """The partitions that a member of a consumer group is to have."""

    group_id: GroupId
    member_id: MemberId
    partitions: TopicPartitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class TargetDropped:
    """A member of a consumer group has no target any more."""

    group_id: GroupId
    member_id: MemberId
    cause: Cause


@dataclass(frozen=True, slots=True)
class CurrentAssignmentStored:
    """What a member of a consumer group has, and what it must give up."""

    group_id: GroupId
    member_id: MemberId
    current: CurrentAssignment
    cause: Cause


@dataclass(frozen=True, slots=True)
class CurrentAssignmentDropped:
    """A member of a consumer group has nothing any more."""

    group_id: GroupId
    member_id: MemberId
    cause: Cause


@dataclass(frozen=True, slots=True)
class ExpressionStored:
    """The topics that a regular expression of a consumer group matches."""

    group_id: GroupId
    expression: str
    resolved: ResolvedExpression
    cause: Cause


@dataclass(frozen=True, slots=True)
class ExpressionDropped:
    """No member subscribes with this regular expression any more."""

    group_id: GroupId
    expression: str
    cause: Cause


ConsumerGroupEvent: TypeAlias = (
    ConsumerGroupStored
    | ConsumerGroupDropped
    | PartitionMetadataDropped
    | ConsumerMemberStored
    | ConsumerMemberDropped
    | TargetEpochStored
    | TargetEpochDropped
    | TargetStored
    | TargetDropped
    | CurrentAssignmentStored
    | CurrentAssignmentDropped
    | ExpressionStored
    | ExpressionDropped
)
