"""Where a story is: what both kinds of groups share while their documents are read one by one."""

from collections.abc import Mapping
from typing import Any

from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.story.members import Roll
from kohort.story.owners import Ownership
from kohort.story.rebalance import UNKNOWN_CAUSE, Cause, End, GroupKind, Incident, Rebalance, Story

Details = Mapping[str, Any]


class Plot:
    """Members, owners, the rebalance that runs, and the draft of the next one.

    A command that starts a rebalance first says who came or went, and only then that it starts: what happens
    while none is preparing belongs to the draft.
    """

    def __init__(self, group_id: str) -> None:
        self.story = Story(group_id)
        self.roll = Roll()
        self.owners = Ownership()
        self.generation: int | None = None  # the group epoch, of a consumer group
        self.running: Rebalance | None = None
        self.topics: dict[str, str] = {}  # names of topics by their ids
        self.draft = self._new_draft()

    def _new_draft(self) -> Rebalance:
        return Rebalance(0, UNKNOWN_CAUSE, members_before=tuple(self.roll.members))

    def drop_draft(self) -> None:
        """What happened so far leads to no rebalance."""
        self.draft = self._new_draft()

    def after(self, at: int, scene: Rebalance) -> int:
        """How long after its start something happened; what leads to a start comes right before it."""
        return 0 if scene is self.draft else at - scene.started_at

    def start(self, at: int, cause: Cause, kind: GroupKind = GroupKind.CLASSIC) -> Rebalance:
        """A rebalance begins; the draft is what is known of it."""
        started = self.running = self.draft
        started.started_at, started.cause, started.kind = at, cause, kind
        started.generation_before = self.generation
        self.draft = self._new_draft()
        self.story.rebalances.append(started)
        return started

    def end(self, at: int, end: End, cause: Cause) -> None:
        """Whatever ran has come to this end."""
        if self.running is not None:
            self.running.end, self.running.ended_at, self.running.end_cause = end, at, cause
        self.running = None
        self.drop_draft()

    def mention(self, at: int, event: str, sentence: str) -> None:
        self.story.incidents.append(Incident(at, event, sentence))

    def begin_empty(self, generation: int) -> None:
        """A group without members, of this generation, is all there is."""
        self.roll.clear()
        self.owners.begin({})
        self.generation = generation
        self.story.removed = None
        self.drop_draft()

    def named(self, partitions: Mapping[str, list[int]]) -> frozenset[TopicPartition]:
        """Partitions by the names of their topics; a topic whose name is not in the journal has its id."""
        return frozenset(
            TopicPartition(TopicName(self.topics.get(topic, topic)), Partition(number))
            for topic, numbers in partitions.items()
            for number in numbers
        )
