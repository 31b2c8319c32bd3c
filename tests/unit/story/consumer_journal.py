"""Consumer groups of the shipped core, and the journal a broker would have written of them."""

from typing import Unpack

from kohort.broker.journal_format import event_document, gap_document
from kohort.model.ids import TopicId, WallTime
from kohort.sim.consumers import BeatOptions, ConsumerScenario
from kohort.story.documents import Document, read_document
from kohort.story.rebalance import Rebalance, Story
from kohort.story.tell import tell


class ConsumerJournal:
    """A scenario of a consumer group; each action is written at its time."""

    def __init__(self, group: ConsumerScenario | None = None, **topics: int) -> None:
        self.group = group or ConsumerScenario(None, **topics)
        self.documents: list[Document] = []
        self._seen = 0
        self._names: dict[TopicId, str] = {}

    @property
    def wall(self) -> WallTime:
        return self.group.node.clock.now.wall

    def write(self) -> None:
        """Write the events that have come since."""
        self._names |= {topic.topic_id: topic.name for topic in self.group.node.topics.values()}
        for event in self.group.node.events[self._seen :]:
            document = read_document(event_document(event, self.wall, self._names.get))
            assert document is not None
            self.documents.append(document)
        self._seen = len(self.group.node.events)

    def lose(self, events: int) -> None:
        """The journal could not keep up."""
        document = read_document(gap_document(events, self.wall))
        assert document is not None
        self.documents.append(document)

    def join(self, name: str, **options: Unpack[BeatOptions]) -> None:
        self.group.join(name, **options)
        self.write()

    def beat(self, name: str, **options: Unpack[BeatOptions]) -> None:
        self.group.beat(name, **options)
        self.write()

    def ack(self, name: str) -> None:
        """The member reports exactly what it is to have."""
        self.group.acknowledge(name)
        self.write()

    def leave(self, name: str) -> None:
        self.beat(name, epoch=-1)

    def sleep(self, millis: int) -> None:
        """Let time pass; what a timer does is written at its time."""
        end = self.group.node.clock.instant + millis
        while (now := self.group.node.clock.instant) < end:
            due = self.group.node.shard.next_deadline()
            self.group.sleep(min(end, max(due, now + 1)) - now if due is not None else end - now)
            self.write()

    def settle(self) -> None:
        """All members follow the target, a moment apart."""
        for _ in range(20):
            for name in tuple(self.group.group.members):
                self.ack(name)
                self.sleep(10)
            if self.group.group.state_name == "Stable":
                return

    def story(self) -> Story:
        return tell("g", self.documents)

    def last(self) -> Rebalance:
        return self.story().rebalances[-1]
