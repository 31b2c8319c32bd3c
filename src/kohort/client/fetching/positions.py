"""Where each partition is read from: committed offsets, resets, and leaders that changed. No I/O.

``due`` says what has to be looked up and remembers that it is being looked up; the answers come back through
the other methods. An answer counts only if its partition still waits for it: a ``seek`` meanwhile wins.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from kohort.client.fetching.chunk import (
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from kohort.client.metadata import NO_NODE, Metadata, PartitionInfo
from kohort.client.subscription import (
    FetchState,
    OffsetAndMetadata,
    PartitionState,
    Position,
    Subscriptions,
)
from kohort.model.errors import KohortError
from kohort.model.ids import Instant, TopicName
from kohort.model.topics import TopicPartition

UNDEFINED = -1


class ResetPolicy(Enum):
    """Where to begin without a usable position; the values are timestamps of ListOffsets."""

    EARLIEST = -2
    LATEST = -1
    NONE = None


class PositionReset(NamedTuple):
    """A place to be looked up by its timestamp."""

    state: PartitionState
    to: int


class Validation(NamedTuple):
    """A position the leader shall confirm."""

    state: PartitionState
    position: Position


class Lookups(NamedTuple):
    """What has to be asked, each of the right node; ``unknown`` are topics without a known leader."""

    committed: dict[TopicPartition, PartitionState]
    resets: dict[TopicPartition, PositionReset]
    validations: dict[TopicPartition, Validation]
    unknown: frozenset[TopicName]


class FetchPositions:
    """The positions of one consumer's assignment."""

    def __init__(self, subscriptions: Subscriptions, policy: ResetPolicy, *, backoff_ms: int) -> None:
        self._subscriptions = subscriptions
        self._policy = policy
        self._backoff_ms = backoff_ms
        self._asking: dict[TopicPartition, PartitionState] = {}
        self._retry_at: dict[TopicPartition, Instant] = {}
        self._errors: list[tuple[Mapping[TopicPartition, PartitionState], KohortError]] = []

    def next_retry(self) -> Instant | None:
        """When ``due`` has something that failed before."""
        assignment = self._subscriptions.assignment
        times = [
            time
            for each, time in self._retry_at.items()
            if each in assignment and assignment[each].valid_position is None and each not in self._asking
        ]
        return min(times, default=None)

    def raise_pending(self) -> None:
        """Raise what was found between two calls of the application.

        Unless it is about partitions that are gone: a member that its group has removed is refused.
        """
        held = self._subscriptions.assignment
        while self._errors:
            asked, error = self._errors.pop(0)
            if any(held.get(each) is state for each, state in asked.items()):
                raise error

    # --- what is to be asked ------------------------------------------------------------------

    def due(self, metadata: Metadata, now: Instant, *, has_group: bool) -> Lookups:
        """What to look up now. Without a group, or a commit, the policy decides where a partition begins."""
        self.follow_leaders(metadata)
        lookups = Lookups({}, {}, {}, frozenset())
        unknown: set[TopicName] = set()
        if not has_group:
            assignment = self._subscriptions.assignment
            self._begin([tp for tp in assignment if assignment[tp].state is FetchState.INITIALIZING])
        for partition, state in self._subscriptions.assignment.items():
            if state.valid_position is not None or self._must_wait(partition, state, now):
                continue
            if state.state is FetchState.INITIALIZING:
                if has_group:
                    lookups.committed[partition] = state
                    self._asking[partition] = state
                continue
            if _leader(metadata, partition) is None:
                unknown.add(partition.topic)
            else:
                self._add(partition, state, lookups)
        return lookups._replace(unknown=frozenset(unknown))

    def _add(self, partition: TopicPartition, state: PartitionState, lookups: Lookups) -> None:
        if state.state is FetchState.AWAIT_RESET and state.reset_to is not None:
            lookups.resets[partition] = PositionReset(state, state.reset_to)
        elif state.position is not None:
            lookups.validations[partition] = Validation(state, state.position)
        self._asking[partition] = state

    def _must_wait(self, partition: TopicPartition, state: PartitionState, now: Instant) -> bool:
        if self._asking.get(partition) is state:
            return True
        return now < self._retry_at.get(partition, now)

    def follow_leaders(self, metadata: Metadata) -> None:
        """Take over leaders and epochs; a position whose epoch is known is validated by a new leader."""
        for partition, state in self._subscriptions.assignment.items():
            found = _leader(metadata, partition)
            position = state.position
            if found is None or position is None or state.state is FetchState.AWAIT_RESET:
                continue
            if (position.leader, position.leader_epoch) != (found.leader, found.leader_epoch):
                moved = position._replace(leader=found.leader, leader_epoch=found.leader_epoch)
                state.seek(moved, validate=True)
                self._asking.pop(partition, None)

    # --- what is answered ---------------------------------------------------------------------

    def committed_found(
        self,
        asked: Mapping[TopicPartition, PartitionState],
        found: Mapping[TopicPartition, OffsetAndMetadata | None],
    ) -> None:
        """Begin where the group left off, or where the policy says."""
        missing: list[TopicPartition] = []
        for partition, state in asked.items():
            self._done(partition, state)
            if not self._still(partition, state, FetchState.INITIALIZING):
                continue
            committed = found.get(partition)
            if committed is None:
                missing.append(partition)
            else:
                state.seek(Position(committed.offset, committed.leader_epoch))
        self._begin(missing)

    def _begin(self, partitions: Collection[TopicPartition]) -> None:
        if not partitions:
            return
        assignment = self._subscriptions.assignment
        if self._policy.value is None:
            asked = {each: assignment[each] for each in partitions}
            self._errors.append((asked, NoOffsetForPartitionError(partitions)))
            return
        for partition in partitions:
            assignment[partition].reset(self._policy.value)

    def reset_found(self, partition: TopicPartition, asked: PositionReset, offset: int) -> None:
        """The place was found. It carries no epoch: nothing has been read there that could diverge."""
        state = asked.state
        self._done(partition, state)
        if self._still(partition, state, FetchState.AWAIT_RESET) and state.reset_to == asked.to:
            state.seek(Position(offset))

    def validated(self, partition: TopicPartition, asked: Validation, epoch: int, end_offset: int) -> None:
        """The leader says where the epoch of the position ends in its log."""
        state, position = asked
        self._done(partition, state)
        if not self._still(partition, state, FetchState.AWAIT_VALIDATION) or state.position != position:
            return
        undefined = epoch == UNDEFINED or end_offset == UNDEFINED
        if not undefined and end_offset >= position.offset:
            state.seek(position)
        elif self._policy.value is None:
            error = LogTruncationError({partition: None if undefined else end_offset})
            self._errors.append(({partition: state}, error))
        elif undefined:
            state.reset(self._policy.value)
        else:
            state.seek(position._replace(offset=end_offset, offset_epoch=epoch))

    def accepted(self, partition: TopicPartition, asked: Validation) -> None:
        """An old broker cannot say: read on as if it had been confirmed."""
        state, position = asked
        self._done(partition, state)
        if self._still(partition, state, FetchState.AWAIT_VALIDATION) and state.position == position:
            state.seek(position)

    def failed(
        self, asked: Mapping[TopicPartition, PartitionState], error: KohortError, now: Instant
    ) -> None:
        """No answer: ask again later; what will not pass is raised by the next poll."""
        for partition, state in asked.items():
            self._done(partition, state)
            self._retry_at[partition] = Instant(now + self._backoff_ms)
        if not error.retriable:
            self._errors.append((asked, error))

    def out_of_range(self, partition: TopicPartition, state: PartitionState, position: Position) -> None:
        """The leader does not have the position; raises OffsetOutOfRangeError if no policy helps."""
        if self._policy.value is None:
            raise OffsetOutOfRangeError(partition, position.offset)
        state.reset(self._policy.value)

    def _done(self, partition: TopicPartition, state: PartitionState) -> None:
        if self._asking.get(partition) is state:
            del self._asking[partition]
        self._retry_at.pop(partition, None)

    def _still(self, partition: TopicPartition, state: PartitionState, expected: FetchState) -> bool:
        return self._subscriptions.assignment.get(partition) is state and state.state is expected


def _leader(metadata: Metadata, partition: TopicPartition) -> PartitionInfo | None:
    topic = metadata.topics.get(partition.topic)
    found = topic.partition(partition.partition) if topic is not None else None
    return found if found is not None and found.leader != NO_NODE else None
