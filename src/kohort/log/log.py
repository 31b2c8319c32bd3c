"""What the broker knows of storage: the log of one partition, and the logs of a whole node.

Both are Protocols: the files of one machine implement them, and so does a database. Everything here is called
on the event loop. A refusal is a ``RefusedError`` with the code of the reply: raised by the calls
that answer one question, returned in its place by ``Storage.append``, where neighbours may succeed.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import NamedTuple, Protocol

from kohort.log.producers import Producers
from kohort.model.errors import RefusedError
from kohort.model.ids import LeaderEpoch, Offset, TopicId, WallTime
from kohort.model.topics import Topic, TopicPartition

UNLIMITED = -1
FOREVER_MS = (1 << 63) - 1


class Cleanup(Flag):
    """``cleanup.policy``: drop old segments, keep the newest record of each key, or both."""

    DELETE = auto()
    COMPACT = auto()


class SyncPolicy(Enum):
    """When written bytes are forced to the disk. They are always written before they are acknowledged."""

    NEVER = "never"  # at the operating system's leisure, and when the storage closes
    INTERVAL = "interval"  # in the background, a moment later
    COMMIT = "commit"  # before the acknowledgement; the high watermark never passes what is synced


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The topic configs a log obeys, under Kafka's names and with Kafka's defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    retention_ms: int = 604_800_000  # UNLIMITED keeps everything
    retention_bytes: int = UNLIMITED
    cleanup: Cleanup = Cleanup.DELETE
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER_MS
    index_interval_bytes: int = 4096
    log_append_time: bool = False  # message.timestamp.type=LogAppendTime
    internal: bool = False  # chooses the sync policy: the node has one for internal topics, one for data

    @property
    def longest_open_ms(self) -> int:
        """How old a segment becomes before another is begun: it must be closed to be compacted in time."""
        compacted = Cleanup.COMPACT in self.cleanup
        return min(self.segment_ms, self.max_compaction_lag_ms) if compacted else self.segment_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpec:
    """What is needed to open the log of a partition, whether or not anything is stored of it yet."""

    partition: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    config: LogConfig


class Append(NamedTuple):
    """One batch for one partition. The storage owns ``batch`` from now on: offsets are written into it."""

    partition: TopicPartition
    batch: bytes | bytearray  # exactly one record batch that ``kohort.records.produced`` has accepted
    leader_epoch: LeaderEpoch  # the owner's; one older than the log's is NOT_LEADER_OR_FOLLOWER
    now: WallTime  # becomes the time of the records where the topic says LogAppendTime
    from_client: bool  # apply the sequence checks of idempotent producers


class Appended(NamedTuple):
    """Where a batch went."""

    base_offset: Offset
    last_offset: Offset
    append_time: int  # -1 unless the topic says LogAppendTime
    log_start_offset: Offset
    duplicate: bool  # a retry of a batch that is stored already: these are the offsets of the original


class Slice(NamedTuple):
    """Whole batches as they are stored."""

    buffers: list[bytes | memoryview]
    size: int
    next_offset: Offset  # where to read on: the offset after the last batch here


class TimedOffset(NamedTuple):
    """One record, found by time."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


class EpochEnd(NamedTuple):
    """The answer of OffsetForLeaderEpoch; -1 and -1 mean "not known here"."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class Repair(NamedTuple):
    """Something recovery cut, dropped or rebuilt; the broker logs it, one line each."""

    directory: str
    what: str


AdvanceListener = Callable[[TopicPartition], None]
"""Called on the loop when a high watermark moves, or when a log fails or goes: all who wait look again."""

ReopenListener = Callable[["Log"], None]
"""Called on the loop with the log that takes the place of one that had failed."""

FaultListener = Callable[[str], None]
"""Called on the loop with what is wrong, in one line."""


class Upkeep(NamedTuple):
    """What a backend needs of its node to keep its logs in order."""

    now: Callable[[], WallTime]  # the time that deletion goes by: a wall clock that jumps does not move it
    pause: Callable[[int], Awaitable[None]]  # waits for milliseconds
    number: Callable[[str], int]  # a broker config as it is now


class Log(Protocol):
    """The log of one partition, which this node leads at one epoch."""

    @property
    def partition(self) -> TopicPartition: ...

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def config(self) -> LogConfig: ...

    @property
    def leader_epoch(self) -> LeaderEpoch: ...

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def high_watermark(self) -> Offset: ...

    @property
    def last_stable_offset(self) -> Offset: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def producers(self) -> Producers: ...

    @property
    def failure(self) -> str | None:
        """Why this log answers KAFKA_STORAGE_ERROR until it is reopened; ``None`` while it is well."""
        ...

    def read(
        self, offset: Offset, max_bytes: int, *, limit: Offset, at_least_one: bool
    ) -> Slice | Awaitable[Slice]:
        """Whole batches below ``limit``, beginning with the one that holds ``offset``.

        With ``at_least_one`` the first batch comes even if it is larger than ``max_bytes``. An empty slice
        means there is nothing below ``limit``, or nothing that fits. Raises OFFSET_OUT_OF_RANGE. What is at
        hand comes at once: a Fetch then needs no task.
        """
        ...

    def readable_bytes(self, offset: Offset, limit: Offset) -> int:
        """About how many bytes ``read`` could return: positive exactly when there are some. Never waits."""
        ...

    async def find_by_time(self, timestamp: int, limit: Offset) -> TimedOffset | None:
        """The first record below ``limit`` that is not older than ``timestamp``.

        Raises NOT_LEADER_OR_FOLLOWER when the log is released, deleted or reopened meanwhile.
        """
        ...

    async def max_timestamp(self, limit: Offset) -> TimedOffset | None:
        """The (first) youngest record below ``limit``; ``None`` without records. Raises as above."""
        ...

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which ``offset`` was, or would be, written."""
        ...

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd: ...

    async def delete_before(self, offset: Offset) -> Offset:
        """Move the start up to ``offset`` (DeleteRecords) and return the start; durable when it returns.

        Raises OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        ...

    def reconfigure(self, config: LogConfig) -> None: ...


class Storage(Protocol):
    """The logs that this node leads. Each backend looks after its own: ``maintain``."""

    async def open(self, specs: Sequence[LogSpec]) -> list[Log | RefusedError]:
        """Open, or begin, the logs of partitions, many at once: one result for each, in order."""
        ...

    async def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Close logs that this node does not lead any more; nothing is deleted.

        What was being appended is answered NOT_LEADER_OR_FOLLOWER.
        """
        ...

    async def destroy(self, topic: Topic) -> None:
        """The topic is deleted: close its logs, and remove what is stored of it, now or later.

        What was being appended is answered KAFKA_STORAGE_ERROR.
        """
        ...

    def append(self, appends: Sequence[Append]) -> Future[list[Appended | RefusedError]]:
        """Write each batch to its log; one result for each, in order.

        The future is done already when nothing has to be awaited; otherwise it is done when every batch is as
        safe as its topic's policy asks. It fails only by a bug.
        """
        ...

    def on_advance(self, listener: AdvanceListener) -> None: ...

    def on_reopen(self, listener: ReopenListener) -> None: ...

    def on_fault(self, listener: FaultListener) -> None:
        """Tell it of the faults that requests meet, as often as they do; without one they are logged."""
        ...

    async def maintain(self, upkeep: Upkeep) -> None:
        """Retention, compaction, snapshots, reopening of what has failed; goes on until it is cancelled."""
        ...

    def reports(self) -> Iterable[Repair]:
        """What was repaired since the last call."""
        ...

    async def close(self, *, started: bool = True) -> None:
        """Store what is not stored yet. Nothing may be called afterwards.

        ``started`` is false when not all logs were opened.
        """
        ...
