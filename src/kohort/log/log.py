"""What the broker knows of storage: the log of one partition, and the logs of a whole node.

Both are Protocols: the files of one machine implement them today, a database may tomorrow. Everything here
is called on the event loop. A refusal is a ``RefusedError`` with the code of the reply: raised by the calls
that answer one question, returned in its place by ``Storage.append``, where neighbours may succeed.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import NamedTuple, Protocol

from kohort.model.errors import RefusedError
from kohort.model.ids import LeaderEpoch, Offset, TopicId, WallTime
from kohort.model.topics import TopicPartition

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


Work = Callable[[], None]
"""Blocking work (a sync) that wants a thread; the one who asked for it waits until it has run."""

Steps = Generator[Work | None, None, None]
"""Something long, cut into pieces that a loop can afford."""

Look = Callable[[], TimedOffset | None]
"""A look into one batch that takes long; it needs nothing of the log, so a thread may do it."""

Search = Generator[Look, TimedOffset | None, TimedOffset | None]
"""A search that is sent what each look has found, and returns what there is. Most need no look.

The log may be used and changed meanwhile; one that was deleted or reopened must not be searched any further.
"""

AdvanceListener = Callable[[TopicPartition], None]
"""Called on the loop when a high watermark moves, or when a log fails or goes: whoever waits looks again."""


class Log(Protocol):
    """The log of one partition."""

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
    def failure(self) -> str | None:
        """Why this log answers KAFKA_STORAGE_ERROR until ``Storage.reopen``; ``None`` while it is well."""
        ...

    def read(self, offset: Offset, max_bytes: int, *, limit: Offset, at_least_one: bool) -> Slice:
        """Whole batches below ``limit``, beginning with the one that holds ``offset``.

        With ``at_least_one`` the first batch comes even if it is larger than ``max_bytes``. An empty slice
        means there is nothing below ``limit``, or nothing that fits. Raises OFFSET_OUT_OF_RANGE.
        """
        ...

    def readable_bytes(self, offset: Offset, limit: Offset) -> int:
        """About how many bytes ``read`` could return: positive exactly when there are some. Reads no file."""
        ...

    def find_by_time(self, timestamp: int, limit: Offset) -> Search:
        """The first record below ``limit`` that is not older than ``timestamp``."""
        ...

    def max_timestamp(self, limit: Offset) -> Search:
        """The (first) youngest record below ``limit``; ``None`` when there are no records."""
        ...

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which ``offset`` was, or would be, written."""
        ...

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd: ...

    def delete_before(self, offset: Offset) -> Offset:
        """Move the start up to ``offset`` (DeleteRecords) and return the start.

        Raises OFFSET_OUT_OF_RANGE beyond the high watermark. Survives a crash after ``Storage.checkpoint``.
        """
        ...

    def truncate(self, offset: Offset) -> None:
        """Forget everything from ``offset`` on: the batch that holds it goes as a whole.

        The log does not end before its start: where nothing remains, it begins anew there. Survives a crash
        after ``Storage.flush``, and ``Storage.checkpoint`` if what was checkpointed is cut off.
        """
        ...

    def apply_retention(self, now: WallTime) -> int:
        """Drop the segments that are too old, too many, or below the start; how many went."""
        ...

    def is_cleanable(self, now: WallTime) -> bool:
        """Whether enough of the log is dirty for ``compact`` to be worth it."""
        ...

    def compact(self, now: WallTime) -> Steps:
        """Compact the closed segments in small steps: give way at ``None``, run a ``Work`` off the loop.

        The log may be used between steps; if its closed segments change, compaction gives up and leaves the
        log as it is. Whoever stops early, or fails to run a ``Work``, closes the generator.
        ``Storage.compact`` does all this.
        """
        ...

    def expire_producers(self, now: WallTime, after_ms: int) -> None:
        """Forget the sequence numbers of producers that have been silent for ``after_ms``."""
        ...

    def reconfigure(self, config: LogConfig) -> None: ...


class Storage(Protocol):
    """The logs of a node."""

    def open_log(self, spec: LogSpec) -> Log:
        """Open, or begin, the log of a partition; recovers it first if the last run did not end cleanly."""
        ...

    def log(self, partition: TopicPartition) -> Log:
        """The open log of ``partition``; raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    def logs(self) -> Iterable[Log]: ...

    def delete_log(self, partition: TopicPartition) -> None:
        """Close the log and remove its files. What was being appended is answered KAFKA_STORAGE_ERROR."""
        ...

    def abandon_log(self, partition: TopicPartition) -> None:
        """Close the log of a topic that could not be created; nothing was written to it."""
        ...

    async def remove_deleted(self) -> None:
        """Remove what ``delete_log`` could not; raises ``OSError`` while that is not possible."""
        ...

    def append(self, appends: Sequence[Append]) -> Future[list[Appended | RefusedError]]:
        """Write each batch to its log; one result for each, in order.

        The future is done already when nothing has to be awaited; otherwise it is done when every batch is as
        safe as its topic's policy asks. It fails only by a bug.
        """
        ...

    async def flush(self) -> None:
        """Sync everything that is written."""
        ...

    async def checkpoint(self) -> None:
        """Store how far logs are synced, where they start and how far they are compacted."""
        ...

    async def compact(self, partition: TopicPartition, now: WallTime) -> None:
        """Run ``Log.compact`` to its end, giving way to the loop between its steps."""
        ...

    async def scrub(self, partition: TopicPartition, rest: Callable[[int], Awaitable[None]]) -> list[Repair]:
        """Compare the checksums of closed segments; what is damaged and was not known to be.

        ``rest`` is called with the number of bytes after each step, to keep to a rate. Damage is answered
        CORRUPT_MESSAGE from then on, and stays where it is.
        """
        ...

    async def reopen(self, partition: TopicPartition) -> Log:
        """Recover a failed log from its files. The new object replaces the old one."""
        ...

    def on_advance(self, listener: AdvanceListener) -> None: ...

    def take_repairs(self) -> list[Repair]:
        """What recovery did since the last call."""
        ...

    async def close(self, *, started: bool = True) -> None:
        """Sync, checkpoint, mark the shutdown as clean. Nothing may be called afterwards.

        ``started`` is false when not all logs were opened: those must be recovered by the next start, too.
        """
        ...
