"""Racks (KIP-881): read from a replica nearby, where that costs no balance."""

from collections.abc import Collection, Iterable, Mapping

from kohort.assign.assignor import ClusterView, Rack, Subscriptions
from kohort.model.ids import MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition

NO_RACKS: frozenset[Rack] = frozenset()


def member_racks(subscriptions: Subscriptions) -> dict[MemberId, Rack]:
    """Where members are; those that do not say are left out."""
    return {member: wish.rack for member, wish in subscriptions.items() if wish.rack}


def topic_racks(cluster: ClusterView, topic: TopicName) -> list[frozenset[Rack]]:
    """The racks of each partition, none where they are not known."""
    count = cluster.partitions[topic]
    known = list(cluster.racks.get(topic, ()))[:count]
    return known + [NO_RACKS] * (count - len(known))


def racks_matter(members: Iterable[Rack], partitions: Collection[frozenset[Rack]]) -> bool:
    """Whether some member has a replica in its rack, and some partition is not in every rack."""
    everywhere = NO_RACKS.union(*partitions)
    return not everywhere.isdisjoint(members) and any(racks != everywhere for racks in partitions)


class RackMatch:
    """Which members are near which partitions; made only where that matters."""

    __slots__ = ("_members", "_partitions")

    def __init__(
        self, members: Mapping[MemberId, Rack], partitions: Mapping[TopicPartition, frozenset[Rack]]
    ) -> None:
        self._members = members
        self._partitions = partitions

    def near(self, member: MemberId, partition: TopicPartition) -> bool:
        """Whether the member has a rack, and the partition a replica in it."""
        return self._members.get(member) in self._partitions[partition]

    def far(self, member: MemberId, partition: TopicPartition) -> bool:
        """Whether the member has a rack, and the partition no replica in it."""
        return member in self._members and not self.near(member, partition)

    def scarcest_first(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """By how many members are near; those equal in that keep their order."""
        crowd: dict[Rack, int] = {}
        for rack in self._members.values():
            crowd[rack] = crowd.get(rack, 0) + 1
        return sorted(partitions, key=lambda tp: sum(crowd.get(rack, 0) for rack in self._partitions[tp]))


def rack_match(
    cluster: ClusterView, subscriptions: Subscriptions, topics: Iterable[TopicName]
) -> RackMatch | None:
    """For a whole group: ``None`` where racks cannot help."""
    members = member_racks(subscriptions)
    if not members or not cluster.racks:
        return None
    partitions = {
        TopicPartition(topic, Partition(number)): racks
        for topic in topics
        for number, racks in enumerate(topic_racks(cluster, topic))
    }
    return RackMatch(members, partitions) if racks_matter(members.values(), partitions.values()) else None
