"""What a consumer wants to read, what it has been given, and how far it is. No I/O.

``ConsumerSubscription`` and ``PartitionAssignment`` are replaced, never edited: code that kept one across an
``await`` can tell that it is stale. The state of a partition (``PartitionState``) lives as long as the
partition stays assigned, moves from one assignment to the next, and is edited by the fetcher.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, Protocol

from kohort.model.errors import KohortError
from kohort.model.ids import TopicName
from kohort.model.topics import TopicPartition

NO_EPOCH = -1


class SubscriptionError(KohortError):
    """A call that does not fit what the consumer is subscribed to or assigned."""


Partitions = tuple[TopicPartition, ...]


class RebalanceListener(Protocol):
    """Called inside poll, unsubscribe and close, in the application's own context; partitions are sorted.

    What a method raises is raised by poll when the rebalance step is done: a listener cannot veto. In the
    consumer protocol nothing is acknowledged then, and the member waits for another target.
    A class that has no ``on_partitions_lost`` hears of losses as of revocations.
    """

    def on_partitions_revoked(self, partitions: Partitions) -> object:
        """These go, and are still this consumer's: commit what was processed."""

    def on_partitions_assigned(self, partitions: Partitions) -> object:
        """These came (maybe none): seek, if reading starts elsewhere."""


class SubscriptionType(Enum):
    """How a consumer comes to its partitions. They exclude each other until ``unsubscribe``."""

    NONE = "nothing"
    AUTO_TOPICS = "subscribe(topics)"
    AUTO_PATTERN = "subscribe(pattern)"
    USER_ASSIGNED = "assign(partitions)"

    @property
    def is_group_managed(self) -> bool:
        return self in (SubscriptionType.AUTO_TOPICS, SubscriptionType.AUTO_PATTERN)


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression of RE2 that the brokers match, whole names; with group_protocol "consumer"."""

    pattern: str


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    """What is wanted. With a pattern, ``topics`` are those that matched when metadata last changed; with a
    ``remote_pattern`` those that are assigned."""

    type: SubscriptionType = SubscriptionType.NONE
    topics: frozenset[TopicName] = frozenset()
    pattern: re.Pattern[str] | None = None
    remote_pattern: str | None = None  # a ``SubscriptionPattern``

    def matches(self, topic: str) -> bool:
        """Whether a topic belongs to it: one of the names, or a full match of the pattern."""
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        return topic in self.topics


NOTHING = ConsumerSubscription()


class OffsetAndMetadata(NamedTuple):
    """What is committed for a partition: the next offset to read, the epoch of the last one, a note."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


class Position(NamedTuple):
    """The next offset to be returned, and under which leader that was learnt."""

    offset: int
    offset_epoch: int = NO_EPOCH  # of the batch that was consumed last
    leader: int = -1
    leader_epoch: int = NO_EPOCH


class FetchState(Enum):
    """Whether a partition knows where to read on."""

    INITIALIZING = "no position yet"
    AWAIT_RESET = "looking up where the log begins or ends"
    AWAIT_VALIDATION = "asking the leader whether the position still exists"
    FETCHING = "reading"


class PartitionState:
    """One assigned partition. Edited by the fetching side; kept while the partition stays assigned."""

    __slots__ = ("awaits_callback", "is_paused", "pending_revocation", "position", "reset_to", "state")

    def __init__(self) -> None:
        self.state = FetchState.INITIALIZING
        self.position: Position | None = None
        self.reset_to: int | None = None  # the timestamp a reset asks ListOffsets for: -2, -1 or a real one
        self.is_paused = False
        self.pending_revocation = False  # about to go: what is buffered is not handed out any more
        self.awaits_callback = False

    @property
    def valid_position(self) -> Position | None:
        """The position, if it can be read from and committed."""
        return self.position if self.state is FetchState.FETCHING else None

    @property
    def is_fetchable(self) -> bool:
        held = self.is_paused or self.pending_revocation or self.awaits_callback
        return self.state is FetchState.FETCHING and not held

    def seek(self, position: Position, *, validate: bool = False) -> None:
        """Read on from there; with ``validate`` and both epochs known, only after the leader has agreed."""
        known = position.offset_epoch >= 0 and position.leader_epoch >= 0
        self.position = position
        self.reset_to = None
        self.state = FetchState.AWAIT_VALIDATION if validate and known else FetchState.FETCHING

    def reset(self, to: int) -> None:
        """Forget the position; it will be looked up by the timestamp ``to``."""
        self.position = None
        self.reset_to = to
        self.state = FetchState.AWAIT_RESET


class PartitionAssignment(Mapping[TopicPartition, PartitionState]):
    """The partitions a consumer has, in order. A new one is made for every change."""

    __slots__ = ("_states",)

    def __init__(self, states: Mapping[TopicPartition, PartitionState] | None = None) -> None:
        self._states = {partition: states[partition] for partition in sorted(states)} if states else {}

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        return self._states[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __repr__(self) -> str:
        return f"<PartitionAssignment of {', '.join(map(str, self._states)) or 'nothing'}>"

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Sorted by topic and number."""
        return tuple(self._states)

    def replaced(self, partitions: Iterable[TopicPartition]) -> "PartitionAssignment":
        """Exactly these: those that stay keep their state, new ones start without a position."""
        return PartitionAssignment({each: self._states.get(each) or PartitionState() for each in partitions})

    def committable(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit of everything says: the valid positions."""
        return {
            partition: OffsetAndMetadata(position.offset, position.offset_epoch)
            for partition, state in self._states.items()
            if (position := state.valid_position) is not None
        }


class Subscriptions:
    """The current subscription and assignment of one consumer; both are replaced here and nowhere else."""

    __slots__ = ("assignment", "subscription")

    def __init__(self) -> None:
        self.subscription = NOTHING
        self.assignment = PartitionAssignment()

    def __repr__(self) -> str:
        return f"<Subscriptions by {self.subscription.type.value}: {self.assignment}>"

    @property
    def is_group_managed(self) -> bool:
        return self.subscription.type.is_group_managed

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics and no others. Membership and assignment stay until the next rebalance."""
        names = frozenset(TopicName(topic) for topic in topics)
        if blank := [name for name in names if not name.strip()]:
            raise SubscriptionError(f"a topic to subscribe to has no name: {blank[0]!r}")
        self._change(ConsumerSubscription(SubscriptionType.AUTO_TOPICS, names))

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Want every topic whose whole name matches; which those are comes with the metadata."""
        self._change(ConsumerSubscription(SubscriptionType.AUTO_PATTERN, pattern=pattern))

    def subscribe_remote_pattern(self, pattern: SubscriptionPattern) -> None:
        """Want every topic that the brokers say matches."""
        self._change(ConsumerSubscription(SubscriptionType.AUTO_PATTERN, remote_pattern=pattern.pattern))

    def set_matched_topics(self, topics: Iterable[TopicName]) -> bool:
        """Take over what a pattern matches now; whether that changed anything."""
        found = frozenset(topics)
        changed = found != self.subscription.topics
        if changed:
            self.subscription = replace(self.subscription, topics=found)
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, outside any group; those that were assigned before keep their state."""
        wanted = set(partitions)
        topics = frozenset(partition.topic for partition in wanted)
        self._change(ConsumerSubscription(SubscriptionType.USER_ASSIGNED, topics))
        self.assignment = self.assignment.replaced(wanted)

    def assign_from_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """Take over what the group assigned."""
        assert self.is_group_managed, "only a group assigns to subscribers"
        self.assignment = self.assignment.replaced(partitions)

    def unsubscribe(self) -> None:
        self.subscription = NOTHING
        self.assignment = PartitionAssignment()

    def state(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition; SubscriptionError for any other."""
        found = self.assignment.get(partition)
        if found is None:
            raise SubscriptionError(
                f"partition {partition} is not assigned to this consumer",
                hint="it may have gone to another member; `assignment()` shows what is here",
            )
        return found

    def fetchable(self, ready: Callable[[TopicPartition], bool]) -> list[TopicPartition]:
        """The partitions that can be fetched and for which ``ready`` holds."""
        return [each for each, state in self.assignment.items() if state.is_fetchable and ready(each)]

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand nothing more out from exactly these: their positions are final."""
        going = set(partitions)
        for partition, state in self.assignment.items():
            state.pending_revocation = partition in going

    def await_callback(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch nothing from exactly these: the application has not heard of them yet."""
        added = set(partitions)
        for partition, state in self.assignment.items():
            state.awaits_callback = partition in added

    def _change(self, wanted: ConsumerSubscription) -> None:
        current = self.subscription.type
        if current not in (SubscriptionType.NONE, wanted.type):
            raise SubscriptionError(
                f"{wanted.type.value} cannot follow {current.value}: "
                "topics, a pattern and partitions exclude each other",
                hint="call unsubscribe() first",
            )
        self.subscription = wanted
