"""Idempotent producers: what each has written here, and what it may write next.

Pure: batch headers in, decisions out. The state is rebuilt from headers, or from the newest snapshot and the
headers after it; a snapshot knows only the last batch of each producer, as in Kafka.
"""

from collections.abc import ItemsView, Iterator
from itertools import islice
from struct import Struct
from typing import NamedTuple
from weakref import WeakSet

from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset, ProducerId, WallTime
from kohort.primitives.crc import crc32c
from kohort.records.batch import NO_PRODUCER_ID, BatchHeader

REMEMBERED_BATCHES = 5
"""How many batches of a producer are recognised when it repeats them: a client has at most 5 in flight."""

MOST_PRODUCERS = 10_000
"""Of one partition. One more, and the one silent for longest is forgotten, as if it had expired."""

MOST_PRODUCERS_OF_A_NODE = 200_000
"""Of all partitions together: some 240 MB. One more, and those with the most producers forget some."""

NO_EPOCH = -1
NO_TRANSACTION = Offset(-1)
_NO_COORDINATOR = -1
_SEQUENCES = 1 << 31

_SNAPSHOT_VERSION = 1
_FRONT = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class StoredBatch(NamedTuple):
    """A batch as the sequence checks remember it."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> Offset:
        return Offset(self.last_offset - self.offset_delta)


class ProducerState:
    """What one producer id has written."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "open_since")

    def __init__(self, epoch: int = NO_EPOCH) -> None:
        self.epoch = epoch
        self.batches: list[StoredBatch] = []  # oldest first
        self.last_timestamp = -1
        self.coordinator_epoch = _NO_COORDINATOR
        self.open_since = NO_TRANSACTION  # first offset of its open transaction

    @property
    def last_sequence(self) -> int:
        """Of its last batch in this epoch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1


class CorruptSnapshotError(ValueError):
    """A ``.snapshot`` that is cut, of another version, or fails its checksum."""


class Producers:
    """All producers of one partition."""

    __slots__ = ("__weakref__", "_producers", "_room")

    def __init__(self) -> None:
        self._producers: dict[
            ProducerId, ProducerState
        ] = {}  # the one that has been silent for longest first
        self._room: ProducerRoom | None = None

    def share(self, room: "ProducerRoom") -> None:
        """Count these among those of a node from here on."""
        self._room = room
        room.add(self)

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def highest_id(self) -> int:
        """The highest producer id that is remembered; -1 if there is none."""
        return max(self._producers, default=-1)

    def active(self) -> ItemsView[ProducerId, ProducerState]:
        """All that are remembered, those silent for longest first."""
        return self._producers.items()

    def check(self, header: BatchHeader) -> StoredBatch | None:
        """May a client append this batch? ``None`` says yes; a repetition gets the original.

        Raises INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE.
        """
        producer = self._producers.get(ProducerId(header.producer_id))
        if producer is None:
            return None  # any sequence: what was known may have expired
        if header.producer_epoch == producer.epoch:
            original = _repeated(producer, header)
            if original is not None:
                return original
        _check_epoch(producer, header)
        _check_sequence(producer, header)
        if producer.open_since != NO_TRANSACTION and not header.is_transactional:
            raise RefusedError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open; this batch is outside of it",
            )
        return None

    def update(self, header: BatchHeader, base_offset: Offset, timestamp: int) -> None:
        """A batch with a producer id was appended at ``base_offset``; control batches end a transaction."""
        producer_id = ProducerId(header.producer_id)
        producer = self._producers.pop(producer_id, None)
        is_more = producer is None and len(self._producers) < MOST_PRODUCERS
        if producer is None:
            producer = ProducerState()
            if not is_more:
                self.forget_the_most_silent(1)
        self._producers[producer_id] = producer
        if is_more and self._room is not None:
            self._room.take(1)
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.last_timestamp = timestamp
        if header.is_control:
            producer.open_since = NO_TRANSACTION
            return
        delta = header.last_offset_delta
        stored = StoredBatch(header.last_sequence, Offset(base_offset + delta), delta, timestamp)
        producer.batches.append(stored)
        del producer.batches[:-REMEMBERED_BATCHES]
        if header.is_transactional and producer.open_since == NO_TRANSACTION:
            producer.open_since = base_offset

    def replay(self, header: BatchHeader) -> None:
        """Learn from a batch that stands in the log."""
        if header.producer_id != NO_PRODUCER_ID:
            self.update(header, Offset(header.base_offset), header.max_timestamp)

    def expire(self, now: WallTime, after_ms: int) -> None:
        """Forget those silent for ``after_ms``, unless they have a transaction open."""
        limit = now - after_ms
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.last_timestamp <= limit and producer.open_since == NO_TRANSACTION
        ]
        for producer_id in expired:
            del self._producers[producer_id]

    def forget_the_most_silent(self, count: int) -> None:
        """Forget ``count`` producers as if they had expired; one with an open transaction is kept."""
        closed = (
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.open_since == NO_TRANSACTION
        )
        for producer_id in list(islice(closed, count)):
            del self._producers[producer_id]

    def last_offsets(self) -> dict[int, Offset]:
        """The last offset of each producer's last batch: compaction must leave these batches standing."""
        return {
            producer_id: producer.batches[-1].last_offset
            for producer_id, producer in self._producers.items()
            if producer.batches
        }

    def snapshot(self) -> bytes:
        """The content of a ``.snapshot`` file."""
        entries = b"".join(_entry(producer_id, producer) for producer_id, producer in self._producers.items())
        body = _COUNT.pack(len(self._producers)) + entries
        return _FRONT.pack(_SNAPSHOT_VERSION, crc32c(body)) + body

    @classmethod
    def from_snapshot(cls, content: bytes) -> "Producers":
        """Raises ``CorruptSnapshotError``."""
        producers = cls()
        for producer_id, producer in _read_snapshot(content):
            producers._producers[producer_id] = producer
        return producers


class ProducerRoom:
    """What all partitions of a node may remember together, so that they cannot take all memory.

    When it is full, an eighth is made free where the most producers are: a partition with few keeps them.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST_PRODUCERS_OF_A_NODE if most is None else most
        self._taken = 0  # at least: those that expire are not noticed before it is full
        self._partitions: WeakSet[Producers] = WeakSet()

    def add(self, producers: Producers) -> None:
        self._partitions.add(producers)
        self.take(len(producers))

    def take(self, count: int) -> None:
        """Count ``count`` more producers, and make room if there are too many."""
        self._taken += count
        if self._taken > self._most:
            self._make_room()

    def _make_room(self) -> None:
        largest = sorted(self._partitions, key=len, reverse=True)
        sizes = [len(producers) for producers in largest]
        self._taken = sum(sizes)
        if self._taken <= self._most:
            return
        wanted = self._most * 7 // 8
        level = _level(sizes, wanted)
        for producers, size in zip(largest, sizes, strict=True):
            if size <= level:
                break
            producers.forget_the_most_silent(size - level)
        self._taken = wanted


def _level(sizes: list[int], wanted: int) -> int:
    """The largest size that each may have so that all are ``wanted`` together. ``sizes``: largest first."""
    others = sum(sizes)
    for count, size in enumerate(sizes, 1):
        others -= size
        level = (wanted - others) // count
        following = sizes[count] if count < len(sizes) else 0
        if level >= following:
            return level
    return 0


def _repeated(producer: ProducerState, header: BatchHeader) -> StoredBatch | None:
    sequence, delta = header.last_sequence, header.last_offset_delta
    for stored in producer.batches:
        if stored.last_sequence == sequence and stored.offset_delta == delta:
            return stored
    return None


def _check_epoch(producer: ProducerState, header: BatchHeader) -> None:
    if header.producer_epoch < producer.epoch:
        raise RefusedError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} is at epoch {producer.epoch}, not {header.producer_epoch}",
        )


def _check_sequence(producer: ProducerState, header: BatchHeader) -> None:
    if header.producer_epoch != producer.epoch:
        expected = 0 if producer.epoch != NO_EPOCH else header.base_sequence
    else:
        # After nothing but a marker in this epoch, numbering begins.
        expected = (producer.last_sequence + 1) % _SEQUENCES
    if header.base_sequence != expected:
        raise RefusedError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {header.base_sequence} where {expected} comes next",
        )


def _entry(producer_id: ProducerId, producer: ProducerState) -> bytes:
    last = producer.batches[-1] if producer.batches else StoredBatch(-1, Offset(-1), 0, -1)
    return _ENTRY.pack(
        producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.open_since,
    )


def _read_snapshot(content: bytes) -> Iterator[tuple[ProducerId, ProducerState]]:
    start = _FRONT.size + _COUNT.size
    if len(content) < start:
        raise CorruptSnapshotError("a snapshot is cut off")
    version, checksum = _FRONT.unpack_from(content)
    (count,) = _COUNT.unpack_from(content, _FRONT.size)
    if version != _SNAPSHOT_VERSION or crc32c(memoryview(content)[_FRONT.size :]) != checksum:
        raise CorruptSnapshotError("a snapshot has another version or a wrong checksum")
    if len(content) != start + count * _ENTRY.size:
        raise CorruptSnapshotError(f"a snapshot of {count} producers has {len(content)} bytes")
    for entry in _ENTRY.iter_unpack(memoryview(content)[start:]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, open_since = entry
        producer = ProducerState(epoch)
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.open_since = Offset(open_since)
        if offset >= 0:
            producer.batches.append(StoredBatch(sequence, Offset(offset), delta, timestamp))
        yield ProducerId(producer_id), producer
