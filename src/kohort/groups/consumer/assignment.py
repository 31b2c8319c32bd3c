"""What a member of a consumer group has, and what it has to give up (modern-groups 1)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias

from kohort.assign.server.group import TopicPartitions
from kohort.model.ids import Partition, TopicId

JOINING = 0  # the epoch of a member that joins
LEAVING = -1  # the epoch of a member that leaves
LEFT_FOR_A_WHILE = -2  # the epoch of a static member that will be back

TopicIdPartition: TypeAlias = tuple[TopicId, Partition]


class MemberState(IntEnum):
    """How far a member is on its way to the target; the numbers are those of its record."""

    STABLE = 0  # nothing is outstanding for the epoch that it is in
    UNREVOKED_PARTITIONS = 1  # it must give up what is pending before it moves to the target epoch
    UNRELEASED_PARTITIONS = 2  # it is at the target epoch, but others still own some of its target
    UNKNOWN = 127  # any other number in the log


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The reconciled part of a member. A partition in either set has this member as its owner."""

    member_epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: TopicPartitions = field(default_factory=dict)
    pending_revocation: TopicPartitions = field(default_factory=dict)

    def is_reconciled(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def leave_for_a_while(self) -> "CurrentAssignment":
        """A static member says goodbye: it keeps what it has, and what was pending is free (8)."""
        return replace(self, member_epoch=LEFT_FOR_A_WHILE, pending_revocation={})

    def hand_over(self) -> "CurrentAssignment":
        """What the successor of a static member begins with (9)."""
        return replace(self, member_epoch=JOINING, previous_epoch=JOINING)


def overlaps(some: TopicPartitions, others: TopicPartitions) -> bool:
    return any(not numbers.isdisjoint(others[topic]) for topic, numbers in some.items() if topic in others)


def contains(whole: TopicPartitions, part: TopicPartitions) -> bool:
    return all(numbers <= whole.get(topic, frozenset()) for topic, numbers in part.items())


def each_partition(partitions: TopicPartitions) -> Iterator[TopicIdPartition]:
    return ((topic, number) for topic, numbers in partitions.items() for number in numbers)
