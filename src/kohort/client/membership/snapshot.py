"""The part of a cluster's metadata that decides about rebalances: topics, their partitions, replica racks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kohort.client.metadata import Metadata
from kohort.model.ids import TopicName

Shape = tuple[frozenset[str], ...]
"""A topic: for each of its partitions, in order, the racks of the replicas."""


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """Topics as a member sees them. ``version`` grows with every update.

    ``asked`` are the topics the last request was about (None: all): only of these is it known that they do
    not exist when they are missing.
    """

    version: int = 0
    topics: Mapping[TopicName, Shape] = field(default_factory=dict)
    internal: frozenset[TopicName] = frozenset()
    asked: frozenset[TopicName] | None = frozenset()

    def covers(self, wanted: Iterable[TopicName]) -> bool:
        """Whether something is known of all of these, if only that they are not there."""
        return self.asked is None or all(each in self.asked or each in self.topics for each in wanted)

    def snapshot(self, wanted: Iterable[TopicName], *, with_racks: bool) -> "MetadataSnapshot":
        """What of these topics a change of counts as a reason to rebalance."""
        no_rack: frozenset[str] = frozenset()
        shapes = {
            name: self.topics[name] if with_racks else (no_rack,) * len(self.topics[name])
            for name in sorted(wanted)
            if name in self.topics
        }
        return MetadataSnapshot(self.version, shapes)


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """Partition counts, and racks if this consumer has one, at a version of the metadata."""

    version: int
    shapes: Mapping[TopicName, Shape]

    def matches(self, other: "MetadataSnapshot") -> bool:
        """Leaders may have changed; counts, topics and racks have not."""
        return self.version == other.version or self.shapes == other.shapes


def cluster_topics(
    metadata: Metadata, version: int, asked: Iterable[TopicName] | None = None
) -> ClusterTopics:
    """The same from the metadata of the client; ``asked`` as in ClusterTopics."""
    racks = {node.node_id: node.rack for node in metadata.nodes.values()}
    shapes = {
        name: tuple(
            frozenset(rack for node in one.replicas if (rack := racks.get(node)))  # type: ignore[call-overload]  # replicas are plain numbers
            for one in topic.partitions
        )
        for name, topic in metadata.topics.items()
    }
    internal = frozenset(name for name, topic in metadata.topics.items() if topic.is_internal)
    return ClusterTopics(version, shapes, internal, None if asked is None else frozenset(asked))
