"""The newest batches of each partition in memory, so that consumers that keep up touch no database."""

from bisect import bisect_left
from collections import deque
from typing import NamedTuple

from kohort.log.log import Slice
from kohort.model.ids import Offset

DEFAULT_BUDGET = 256 << 20


class CachedBatch(NamedTuple):
    """One batch as it is stored."""

    base_offset: Offset
    last_offset: Offset
    records: bytes | bytearray


class Tail:
    """The newest batches of one partition, without gaps, oldest first. ``end`` is where they end."""

    __slots__ = ("batches", "end", "size")

    def __init__(self, end: Offset) -> None:
        self.batches: deque[CachedBatch] = deque()
        self.end = end
        self.size = 0

    @property
    def start(self) -> Offset:
        """Everything from here on is in memory."""
        return self.batches[0].base_offset if self.batches else self.end

    def read(self, offset: Offset, max_bytes: int, limit: Offset, at_least_one: bool) -> Slice | None:
        """As ``Log.read``; ``None`` if the first batch is not here."""
        if offset < self.start:
            return None
        buffers: list[bytes | memoryview] = []
        size, next_offset = 0, offset
        first = bisect_left(self.batches, offset, key=lambda each: each.last_offset)
        for index in range(first, len(self.batches)):
            batch = self.batches[index]
            if batch.last_offset >= limit:
                break
            is_first = at_least_one and not buffers
            if size + len(batch.records) > max_bytes and not is_first:
                break
            buffers.append(memoryview(batch.records))
            size += len(batch.records)
            next_offset = Offset(batch.last_offset + 1)
        return Slice(buffers, size, next_offset)

    def bytes_from(self, offset: Offset, limit: Offset) -> int:
        first = bisect_left(self.batches, offset, key=lambda each: each.last_offset)
        chosen = (self.batches[index] for index in range(first, len(self.batches)))
        return sum(len(each.records) for each in chosen if each.last_offset < limit)


class TailCache:
    """The tails of all partitions of a node within one budget: the oldest batch goes first.

    A partition keeps its newest batch.
    """

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self._budget = budget
        self._order: deque[Tail] = deque()  # one entry for each batch, in the order in which they came
        self.size = 0

    def add(self, tail: Tail, batch: CachedBatch) -> None:
        """A batch at the end of a tail."""
        tail.batches.append(batch)
        tail.end = Offset(batch.last_offset + 1)
        tail.size += len(batch.records)
        self.size += len(batch.records)
        self._order.append(tail)
        self._evict()

    def drop(self, tail: Tail) -> None:
        """A partition goes."""
        self.size -= tail.size
        tail.size = 0
        tail.batches.clear()

    def _evict(self) -> None:
        for _ in range(len(self._order)):
            if self.size <= self._budget:
                return
            tail = self._order.popleft()
            if len(tail.batches) > 1:
                size = len(tail.batches.popleft().records)
                tail.size -= size
                self.size -= size
            elif tail.batches:
                self._order.append(tail)
