"""Records that are ready to be handed out: those of one batch, or of many."""

from typing import NamedTuple, Protocol

from kohort.client.fetching.records import ConsumerRecord
from kohort.records.batch import BatchHeader


class Place(NamedTuple):
    """Behind what was handed out: the next offset, and the epoch of the batch before it."""

    offset: int
    epoch: int


class Run(Protocol):
    """Records that follow each other. ``portion`` shows the next ones, ``advance`` hands them out."""

    end: int
    """The byte of the log behind its last batch."""

    @property
    def left(self) -> int:
        """How many records it still has."""
        ...

    def portion(self, limit: int) -> list[ConsumerRecord]:
        """Some of the records that are left, at most ``limit``; asked again, the same ones."""
        ...

    def advance(self, count: int) -> Place:
        """Move behind so many of the last portion, at least one."""
        ...


class BatchRun:
    """The records of one batch that lie at or behind a position."""

    __slots__ = ("_at", "_header", "_records", "end")

    def __init__(self, records: list[ConsumerRecord], header: BatchHeader, end: int) -> None:
        self.end = end
        self._records = records
        self._header = header
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._records) - self._at

    def portion(self, limit: int) -> list[ConsumerRecord]:
        return self._records[self._at : self._at + limit]

    def advance(self, count: int) -> Place:
        self._at += count
        header = self._header
        if self._at < len(self._records):
            return Place(self._records[self._at - 1].offset + 1, header.partition_leader_epoch)
        # Behind the whole batch: compaction may have removed the last records of it.
        return Place(header.next_offset, header.partition_leader_epoch)
