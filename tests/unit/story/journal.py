"""Scenarios of the shipped core, and the journal a broker would have written of them."""

from collections.abc import Callable, Mapping
from functools import partial
from struct import pack

from kohort.broker.journal_format import event_document, gap_document
from kohort.groups.settings import GroupSettings
from kohort.model.ids import Partition, TopicName, WallTime
from kohort.model.topics import TopicPartition
from kohort.sim.driver import Scenario
from kohort.story.documents import Document, read_document
from kohort.story.rebalance import Rebalance, Story
from kohort.story.tell import tell

DELAY = 3_000
TICK = 10


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(TopicName(topic), Partition(number))


def assignment(*numbers: int, topic: str = "t") -> bytes:
    name = topic.encode()
    partitions = b"".join(pack(">i", number) for number in numbers)
    return pack(">hih", 0, 1, len(name)) + name + pack(">i", len(numbers)) + partitions + pack(">i", -1)


def owning(*numbers: int, topic: str = "t") -> bytes:
    """A subscription, version 1, of a member that still has these partitions."""
    name = topic.encode()
    subscribed = pack(">hih", 1, 1, len(name)) + name + pack(">i", -1)
    owned = pack(">ih", 1, len(name)) + name + pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return subscribed + (owned if numbers else pack(">i", 0))


def no_name(topic_id: bytes) -> None:
    """Classic groups know topics by their names."""


class Journal:
    """A scenario, and the journal a broker would have written of it."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.scenario = Scenario(settings)
        self.documents: list[Document] = []
        self._seen = 0

    def sleep(self, millis: int) -> None:
        """Let time pass; what a timer does is written at its time."""
        end = self.scenario.now + millis
        while self.scenario.now < end:
            due = self.scenario.shard.next_deadline()
            until = end if due is None else min(end, max(due, self.scenario.now + 1))
            self.scenario.sleep(until - self.scenario.now)
            self.write()

    def do(self, *actions: Callable[[], object]) -> None:
        """One thing after another, with a moment between them."""
        for action in actions:
            action()
            self.write()
            self.sleep(TICK)

    def write(self) -> None:
        wall = self.scenario.node.clock.now.wall
        self.documents += [
            _read(event_document(event, wall, no_name)) for event in self.scenario.events[self._seen :]
        ]
        self._seen = len(self.scenario.events)

    def lose(self, events: int) -> None:
        """The journal could not keep up."""
        self.documents.append(_read(gap_document(events, WallTime(self.scenario.node.clock.now.wall))))

    def join(self, *names: str) -> None:
        self.do(*(partial(self.scenario.join, name) for name in names))

    def assign(self, leader: str, assignments: Mapping[str, bytes], *others: str) -> None:
        """The others ask first, the leader brings the assignment last."""
        self.do(
            *(partial(self.scenario.sync, name) for name in others),
            lambda: self.scenario.sync(leader, assignments),
        )

    def start(self) -> None:
        """``a`` has the partitions 0 and 1, ``b`` has 2 and 3."""
        self.join("a", "b")
        self.sleep(2 * DELAY - 2 * TICK)  # the initial delay, and once more because of "b"
        self.assign("a", {"a": assignment(0, 1), "b": assignment(2, 3)}, "b")

    def id_of(self, name: str) -> str:
        return self.scenario.id_of(name)

    def story(self) -> Story:
        return tell("g", self.documents)

    def last(self) -> Rebalance:
        return self.story().rebalances[-1]


def _read(value: bytes) -> Document:
    document = read_document(value)
    assert document is not None
    return document
