"""The orders assignors go by, and who subscribes to what."""

from collections.abc import Iterable

from kohort.assign.assignor import ClusterView, Subscriptions
from kohort.model.ids import MemberId, Partition, TopicName
from kohort.model.topics import TopicPartition


def code_units(text: str) -> bytes:
    """A sort key: Java compares strings by UTF-16 code unit, Python by code point."""
    return text.encode("utf-16-be", "surrogatepass")


def by_member_id(members: Iterable[MemberId]) -> list[MemberId]:
    """The order of the sticky assignors, in which the reference iterates hash maps."""
    found = list(members)
    # Both orders are the same for ASCII, and Python's needs no keys.
    return sorted(found) if "".join(found).isascii() else sorted(found, key=code_units)


def static_first(subscriptions: Subscriptions) -> list[MemberId]:
    """Static members by instance id, then dynamic ones by member id.

    So a group of static members keeps its layout over restarts, although their member ids change.
    """

    def place(member: MemberId) -> tuple[bool, bytes, bytes]:
        instance = subscriptions[member].instance_id
        return instance is None, code_units(instance or ""), code_units(member)

    return sorted(subscriptions, key=place)


def subscribers(
    cluster: ClusterView, subscriptions: Subscriptions, order: Iterable[MemberId]
) -> dict[TopicName, list[MemberId]]:
    """Who wants each topic that has partitions; topics by name, members in the order given."""
    wanted: dict[TopicName, list[MemberId]] = {}
    for member in order:
        for topic in dict.fromkeys(subscriptions[member].topics):
            wanted.setdefault(topic, []).append(member)
    return {topic: wanted[topic] for topic in sorted(wanted) if cluster.partitions.get(topic, 0) > 0}


def partitions_of(cluster: ClusterView, topics: Iterable[TopicName]) -> list[TopicPartition]:
    """All partitions of the topics, topic after topic."""
    return [
        TopicPartition(topic, Partition(number))
        for topic in topics
        for number in range(cluster.partitions[topic])
    ]
