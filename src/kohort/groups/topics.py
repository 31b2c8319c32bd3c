"""The topics that exist, as far as groups have to know: they reach a shard as commands."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kohort.groups.commands import TopicImage
from kohort.model.ids import TopicId, TopicName


@dataclass(slots=True)
class TopicCatalog:
    """Topics by name and by id. ``changes`` counts what happened to them since the shard was made."""

    by_name: dict[TopicName, TopicImage] = field(default_factory=dict)
    names: dict[TopicId, TopicName] = field(default_factory=dict)
    changes: int = 0
    version: int = 0  # of the newest creation, in the count of the shell

    def put(self, topics: Iterable[TopicImage], version: int) -> None:
        """Topics were created, or have other partitions."""
        for topic in topics:
            self.remove(topic.name)
            self.by_name[topic.name] = topic
            self.names[topic.topic_id] = topic.name
        self.changes += 1
        self.version = max(self.version, version)

    def remove(self, name: TopicName) -> None:
        """A topic is gone; nothing happens if it never was there."""
        topic = self.by_name.pop(name, None)
        if topic is not None:
            self.names.pop(topic.topic_id, None)
            self.changes += 1

    def by_id(self, topic_id: TopicId) -> TopicImage:
        """The topic of this id, which exists."""
        return self.by_name[self.names[topic_id]]
