"""Chunks that have arrived and were not handed out yet, and the rules of handing out."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from typing import Generic, NamedTuple, TypeVar

from kohort.client.fetching.chunk import BadRecordError, Chunk, ConsumerRecord
from kohort.client.subscription import (
    FetchState,
    OffsetAndMetadata,
    PartitionAssignment,
    PartitionState,
    Position,
    Subscriptions,
)
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition

Refused = Callable[[Chunk, PartitionState, Position], None]
"""Reacts to a chunk that holds an error code instead of records; may raise."""


P = TypeVar("P", bound=Sized)
Take = Callable[[Chunk, int], P]
"""Takes up to a number of records out of a chunk, in one form or another, as ``Chunk.take`` does."""


class Collected(NamedTuple, Generic[P]):
    """What one turn of poll hands out. ``advanced``: a position moved, maybe over nothing but markers."""

    records: dict[TopicPartition, P]
    advanced: bool


class FetchBuffer:
    """A chunk for each partition; and one more, read ahead, for the partition that is being handed out."""

    def __init__(self, subscriptions: Subscriptions, refused: Refused) -> None:
        self._subscriptions = subscriptions
        self._refused = refused
        self._chunks: dict[TopicPartition, Chunk] = {}
        self._open: Chunk | None = None  # the one that is being handed out
        self._following: dict[TopicPartition, Chunk] = {}  # what comes behind a chunk

    def __contains__(self, partition: object) -> bool:
        return partition in self._chunks

    def __len__(self) -> int:
        return len(self._chunks)

    def add(self, chunk: Chunk) -> None:
        """Behind all others; one that was there is replaced, unless this is where it ends."""
        before = self._chunks.get(chunk.partition)
        if before is not None and before.end_offset == chunk.next_offset:
            self._following[chunk.partition] = chunk
        else:
            self._drop(chunk.partition)
            self._chunks[chunk.partition] = chunk

    def ahead(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where to read ahead: behind the chunk that is being handed out, if there surely is more.

        Only then, because a request that has to wait for records would delay others.
        """
        chunk = self._open
        if chunk is None or chunk.end_offset is None or self._chunks.get(chunk.partition) is not chunk:
            return {}
        has_more = chunk.end_offset < ends.get(chunk.partition, 0)
        wanted = has_more and chunk.partition not in self._following
        return {chunk.partition: chunk.end_offset} if wanted else {}

    def drop_stale(self) -> None:
        """Forget what can never be handed out: seeks and rebalances make room for new fetches at once."""
        for partition, chunk in list(self._chunks.items()):
            if self._usable_at(chunk) is None and not self._is_kept(partition, chunk):
                self._drop(partition)

    def _drop(self, partition: TopicPartition) -> None:
        self._chunks.pop(partition, None)
        self._following.pop(partition, None)

    def collect(self, limit: int) -> Collected[list[ConsumerRecord]]:
        """Up to ``limit`` records, moving positions; raises as ``collect_by`` does."""
        return self.collect_by(Chunk.take, limit)

    def collect_by(self, take: Take[P], limit: int) -> Collected[P]:
        """Up to ``limit`` records in the form ``take`` gives them, moving positions.

        What is wrong with a partition is raised when nothing else is there to be returned.
        """
        records: dict[TopicPartition, P] = {}
        advanced = False
        self.drop_stale()
        for partition, chunk in list(self._chunks.items()):
            if limit <= 0:
                break
            position = self._usable_at(chunk)
            if position is None:
                continue
            if chunk.error_code:
                if not records:
                    self._drop(partition)
                    self._refused(chunk, self._subscriptions.assignment[partition], position)
                continue
            taken = self._take(chunk, take, limit, anything_else=bool(records))
            if taken is not None and len(taken):
                limit -= len(taken)
                records[partition] = taken
            advanced = self._move(chunk, position) or advanced
            self._open = None if chunk.is_drained else chunk
        return Collected(records, advanced)

    def collect_more(self, limit: int) -> dict[TopicPartition, list[ConsumerRecord]] | None:
        """Up to ``limit`` records of the chunk that is being handed out, which is not used up by that.

        None if it takes more than that. May be called in the application's thread, while the loop's adds
        chunks: nothing else that is touched here changes without a call of the application.
        """
        chunk = self._open
        if chunk is None or chunk.ready <= limit:
            return None
        position = self._usable_at(chunk)
        if position is None:
            return None
        taken = self._take(chunk, Chunk.take, limit, anything_else=False)
        assert taken is not None
        try:
            self._move(chunk, position)
        except BaseException:  # an interrupt: the chunk does not fit the position any more and goes
            self._subscriptions.assignment[chunk.partition].position = position
            raise
        return {chunk.partition: taken}

    def _take(self, chunk: Chunk, take: Take[P], limit: int, *, anything_else: bool) -> P | None:
        try:
            return take(chunk, limit)
        except BadRecordError:
            if not anything_else:
                self._move(chunk, None)
                raise
            return None

    def _move(self, chunk: Chunk, position: Position | None) -> bool:
        if chunk.is_drained:
            self._use_up(chunk)
        state = self._subscriptions.assignment[chunk.partition]
        current = position or state.position
        assert current is not None
        if chunk.next_offset == current.offset:
            return False
        state.position = current._replace(offset=chunk.next_offset, offset_epoch=chunk.epoch)
        return True

    def _use_up(self, chunk: Chunk) -> None:
        del self._chunks[chunk.partition]
        following = self._following.pop(chunk.partition, None)
        if following is not None and following.next_offset == chunk.next_offset:
            self._chunks[chunk.partition] = following

    def _usable_at(self, chunk: Chunk) -> Position | None:
        """The position of a fetchable partition, if the chunk continues there."""
        state = self._subscriptions.assignment.get(chunk.partition)
        if state is None or not state.is_fetchable or state.position is None:
            return None
        return state.position if state.position.offset == chunk.next_offset else None

    def _is_kept(self, partition: TopicPartition, chunk: Chunk) -> bool:
        """Data of a paused partition waits for its resumption."""
        state = self._subscriptions.assignment.get(partition)
        if state is None or not state.is_paused or state.state is not FetchState.FETCHING:
            return False
        return state.position is not None and state.position.offset == chunk.next_offset


class Remaining:
    """An iteration polls many records and hands out one at a time.

    Positions are already behind all of them; what a commit means is up to the record handed out last.
    """

    __slots__ = ("_at", "_records")

    def __init__(self) -> None:
        self._records: list[ConsumerRecord] = []
        self._at = 0

    def __len__(self) -> int:
        return len(self._records) - self._at

    def next(self) -> ConsumerRecord | None:
        if self._at >= len(self._records):
            self.refill(())  # the last one is done with
            return None
        self._at += 1
        return self._records[self._at - 1]

    def step_back(self) -> None:
        """The record that was handed out last could not be processed."""
        self._at = max(0, self._at - 1)

    def refill(self, portions: Iterable[list[ConsumerRecord]]) -> None:
        self._records = [record for portion in portions for record in portion]
        self._at = 0

    def take_all(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Everything, as a poll returns it."""
        records: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in self._records[self._at :]:
            records.setdefault(_partition(record), []).append(record)
        self.refill(())
        return records

    def drop(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Forget those of these partitions, or all: a seek or another assignment made them void."""
        gone = None if partitions is None else set(partitions)
        kept = [] if gone is None else [r for r in self._records[self._at :] if _partition(r) not in gone]
        self.refill([kept])

    def take_back(
        self, assignment: PartitionAssignment, partitions: Collection[TopicPartition] | None = None
    ) -> None:
        """Let positions stand before what is left of these, or of all, as if that had never been polled."""
        for partition, first in self.first_offsets().items():
            state = assignment.get(partition)
            is_meant = partitions is None or partition in partitions
            if is_meant and state is not None and state.position is not None:
                state.position = state.position._replace(offset=first.offset, offset_epoch=-1)
        self.drop(partitions)

    def first_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where each partition goes on that has records left."""
        firsts: dict[TopicPartition, OffsetAndMetadata] = {}
        for record in self._records[self._at :]:
            firsts.setdefault(_partition(record), OffsetAndMetadata(record.offset))
        return firsts


def _partition(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(TopicName(record.topic), Partition(record.partition))
