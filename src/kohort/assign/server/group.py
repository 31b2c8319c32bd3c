"""What a server-side assignor gets and returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from kohort.assign.members import by_member_id
from kohort.model.ids import InstanceId, MemberId, Partition, TopicId

TopicPartitions: TypeAlias = Mapping[TopicId, frozenset[Partition]]
Targets: TypeAlias = dict[MemberId, TopicPartitions]
NO_PARTITIONS: TopicPartitions = {}


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group that needs a target assignment.

    ``topics`` has for every member the topics that it subscribes to and that exist. ``partitions`` has their
    numbers of partitions. ``same_topics`` says that all members subscribe to the same topics (Kafka's
    subscription type HOMOGENEOUS). ``targets`` is the assignment before; a new member is not in it.
    ``instances`` has the static members alone.
    """

    topics: Mapping[MemberId, frozenset[TopicId]]
    partitions: Mapping[TopicId, int]
    same_topics: bool
    targets: Mapping[MemberId, TopicPartitions] = field(default_factory=dict)
    instances: Mapping[MemberId, InstanceId] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """What the time of an assignor grows with: the partitions, and the topics of each member."""
        return sum(self.partitions.values()) + sum(map(len, self.topics.values()))

    def in_order(self) -> list[MemberId]:
        """The members by id. Kafka visits them in hash order; a fixed order makes results repeatable."""
        return by_member_id(self.topics)


class ServerAssignor(Protocol):
    """Computes the whole target assignment of a group; every member is in the result."""

    name: str

    def assign(self, group: GroupSpec) -> Targets: ...
