"""Records that were polled for an iteration and not yet reached by it."""

from collections.abc import Collection, Iterable

from kohort.client.fetching.records import ConsumerRecord
from kohort.client.subscription import Assignment, OffsetAndMetadata
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition


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

    def take_back(self, assignment: Assignment, partitions: Collection[TopicPartition] | None = None) -> None:
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
