"""The records of ``__consumer_offsets``, declared as Kafka declares them.

A key is a record type (int16) and a body that is never flexible. A value is a version (int16) and a body; a
null value is a tombstone. The contract is offsets-and-log 7 and modern-groups 15.
"""

from collections.abc import Sequence
from typing import ClassVar

from kohort.codec.declare import declared, field
from kohort.codec.schema import (
    ALWAYS,
    BYTES,
    INT8,
    INT32,
    INT64,
    STRING,
    UUID,
    ZERO_UUID,
    Array,
    Message,
    Struct,
    Versions,
    since,
)

ONE_VERSION = Versions(0, 0)


class RecordKey(Message):
    """The key of a record; ``record_type`` is the number that it begins with."""

    __slots__ = ()
    versions = ONE_VERSION
    record_type: ClassVar[int]


class RecordValue(Message):
    """The value of a record; its version is stored in front of it."""

    __slots__ = ()
    versions = ONE_VERSION
    first_flexible = 0


# --- committed offsets --------------------------------------------------------------------------


@declared
class OffsetCommitKey(RecordKey):
    """Names the committed offset of one partition in one group. Type 0 is the same, and older."""

    record_type = 1
    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


@declared
class OffsetCommitValue(RecordValue):
    """What a group has committed for a partition; -1 stands for "none"."""

    versions = Versions(0, 4)
    first_flexible = 4
    offset: int = field(INT64)
    leader_epoch: int = field(INT32, versions=since(3), default=-1)
    metadata: str = field(STRING, default="")
    commit_timestamp: int = field(INT64, default=-1)
    expire_timestamp: int = field(INT64, versions=Versions(1, 1), default=-1)
    topic_id: bytes = field(UUID, versions=since(4), default=ZERO_UUID, tag=0)


# --- classic groups -----------------------------------------------------------------------------


@declared
class GroupMetadataKey(RecordKey):
    """Names a classic group."""

    record_type = 2
    group: str = field(STRING)


@declared
class MemberMetadata(Struct):
    """A member of a stable generation. A rebalance timeout of -1 (version 0) means "the session timeout"."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions=since(3), nullable=since(3), default=None)
    client_id: str = field(STRING, default="")
    client_host: str = field(STRING, default="")
    rebalance_timeout: int = field(INT32, versions=since(1), default=-1)
    session_timeout: int = field(INT32, default=0)
    subscription: bytes = field(BYTES, default=b"")
    assignment: bytes = field(BYTES, default=b"")


@declared
class GroupMetadataValue(RecordValue):
    """A classic group as it was last stored. An empty protocol type means that there is none."""

    versions = Versions(0, 4)
    first_flexible = 4
    protocol_type: str = field(STRING)
    generation: int = field(INT32)
    protocol: str | None = field(STRING, nullable=ALWAYS)
    leader: str | None = field(STRING, nullable=ALWAYS)
    current_state_timestamp: int = field(INT64, versions=since(2), default=-1)
    members: Sequence[MemberMetadata] = field(Array(MemberMetadata), default=())


# --- consumer groups (KIP-848) ------------------------------------------------------------------


@declared
class ConsumerGroupMetadataKey(RecordKey):
    """Names a consumer group."""

    record_type = 3
    group_id: str = field(STRING)


@declared
class ConsumerGroupMetadataValue(RecordValue):
    """The group epoch, and a hash of the topics that the members subscribe to (since Kafka 4.1)."""

    epoch: int = field(INT32)
    metadata_hash: int = field(INT64, default=0, tag=0)


@declared
class ConsumerGroupPartitionMetadataKey(RecordKey):
    """Names the topics of a consumer group, as Kafka 4.0 and older store them."""

    record_type = 4
    group_id: str = field(STRING)


@declared
class PartitionMetadata(Struct):
    """The racks that have a replica of a partition."""

    partition: int = field(INT32)
    racks: list[str] = field(Array(STRING))


@declared
class TopicMetadata(Struct):
    """A topic as the group has seen it."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    num_partitions: int = field(INT32)
    partition_metadata: list[PartitionMetadata] = field(Array(PartitionMetadata))


@declared
class ConsumerGroupPartitionMetadataValue(RecordValue):
    """The topics of a group. Kafka 4.1 and newer do not write it any more."""

    topics: list[TopicMetadata] = field(Array(TopicMetadata))


@declared
class ConsumerGroupMemberMetadataKey(RecordKey):
    """Names a member of a consumer group."""

    record_type = 5
    group_id: str = field(STRING)
    member_id: str = field(STRING)


@declared
class ClassicProtocol(Struct):
    """A protocol that a classic member supports, with its subscription."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@declared
class ClassicMemberMetadata(Struct):
    """What a consumer group keeps of a member that speaks the classic protocol."""

    session_timeout_ms: int = field(INT32)
    supported_protocols: list[ClassicProtocol] = field(Array(ClassicProtocol))


@declared
class ConsumerGroupMemberMetadataValue(RecordValue):
    """What a member has said about itself."""

    instance_id: str | None = field(STRING, nullable=ALWAYS)
    rack_id: str | None = field(STRING, nullable=ALWAYS)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(Array(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable=ALWAYS)
    rebalance_timeout_ms: int = field(INT32)
    server_assignor: str | None = field(STRING, nullable=ALWAYS)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable=ALWAYS, default=None, tag=0
    )


@declared
class ConsumerGroupTargetAssignmentMetadataKey(RecordKey):
    """Names the epoch of a group's target assignment."""

    record_type = 6
    group_id: str = field(STRING)


@declared
class ConsumerGroupTargetAssignmentMetadataValue(RecordValue):
    """The group epoch for which the target was computed; its time since Kafka 4.3."""

    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, default=0, tag=0)


@declared
class AssignedPartitions(Struct):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(Array(INT32))


@declared
class ConsumerGroupTargetAssignmentMemberKey(RecordKey):
    """Names the target of a member."""

    record_type = 7
    group_id: str = field(STRING)
    member_id: str = field(STRING)


@declared
class ConsumerGroupTargetAssignmentMemberValue(RecordValue):
    """The partitions that a member is to have."""

    topic_partitions: list[AssignedPartitions] = field(Array(AssignedPartitions))


@declared
class ConsumerGroupCurrentMemberAssignmentKey(RecordKey):
    """Names the current assignment of a member."""

    record_type = 8
    group_id: str = field(STRING)
    member_id: str = field(STRING)


@declared
class ConsumerGroupCurrentMemberAssignmentValue(RecordValue):
    """What a member has, and what it must give up before it moves to the next epoch."""

    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[AssignedPartitions] = field(Array(AssignedPartitions))
    partitions_pending_revocation: list[AssignedPartitions] = field(Array(AssignedPartitions))


@declared
class ConsumerGroupRegularExpressionKey(RecordKey):
    """Names a regular expression that members of a group subscribe with."""

    record_type = 16
    group_id: str = field(STRING)
    regular_expression: str = field(STRING)


@declared
class ConsumerGroupRegularExpressionValue(RecordValue):
    """The topics that the expression matched, and when."""

    topics: list[str] = field(Array(STRING))
    version: int = field(INT64)
    timestamp: int = field(INT64)
