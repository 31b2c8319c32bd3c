"""What a server-side assignor gets and returns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from kohort.assign.members import by_member_id
from kohort.model.ids import InstanceId, MemberId, Partition, TopicId

TopicPartitions: TypeAlias = Mapping[TopicId, frozenset[Partition]]
Targets: TypeAlias = dict[MemberId, TopicPartitions]
NO_PARTITIONS: TopicPartitions = {}


class MemberSpec(NamedTuple):
    """A member: the topics it subscribes to that exist, and its target in the assignment before."""

    topics: frozenset[TopicId]
    target: TopicPartitions = NO_PARTITIONS
    instance_id: InstanceId | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group that needs a target assignment.

    ``partitions`` has the number of partitions of every topic that a member subscribes to. ``same_topics``
    says that all members subscribe to the same topics (Kafka's subscription type HOMOGENEOUS).
    """

    members: Mapping[MemberId, MemberSpec]
    partitions: Mapping[TopicId, int]
    same_topics: bool

    @property
    def size(self) -> int:
        """What the time of an assignor grows with: the partitions, and the topics of each member."""
        return sum(self.partitions.values()) + sum(len(member.topics) for member in self.members.values())

    def in_order(self) -> Iterator[tuple[MemberId, MemberSpec]]:
        """The members by id. Kafka visits them in hash order; a fixed order makes results repeatable."""
        return ((member_id, self.members[member_id]) for member_id in by_member_id(self.members))


class ServerAssignor(Protocol):
    """Computes the whole target assignment of a group; every member is in the result."""

    name: str

    def assign(self, group: GroupSpec) -> Targets: ...
