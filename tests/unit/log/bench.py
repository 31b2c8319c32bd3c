"""A storage on a disk of one's choice, driven without a running broker."""

import asyncio
import atexit
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from typing import Any, ParamSpec, TypeVar

from kohort.log.files.directory import DataDirectory
from kohort.log.files.disk import Disk
from kohort.log.files.log_files import StorageSettings
from kohort.log.files.memory import Immediately
from kohort.log.files.segmented import SegmentedLog
from kohort.log.files.storage import LogStorage
from kohort.log.log import Append, Appended, Cleanup, LogConfig, LogSpec, SyncPolicy, TimedOffset
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset, Partition, TopicId, TopicName, WallTime
from kohort.model.topics import TopicPartition
from kohort.records.batch import BatchFields, NewRecord, Record, batches, build_batch, read_records

P = ParamSpec("P")
T = TypeVar("T")

_RUNNER = asyncio.Runner()  # one loop for all: a storage may have timers on it from one call to the next
atexit.register(_RUNNER.close)

PARTITION = TopicPartition(TopicName("orders"), Partition(0))
OTHER = TopicPartition(TopicName("orders"), Partition(1))
TOPIC_ID = TopicId(bytes(range(16)))
EPOCH = LeaderEpoch(1)
COMPACTED = LogConfig(cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0.0)


def batch(*values: bytes | None, at: int = 1_000, key: bytes | None = b"k", **fields: Any) -> bytes:  # noqa: ANN401 - of BatchFields
    """A batch as a producer sends it: one record for each value, a millisecond apart."""
    records = [NewRecord(at + number, key, value) for number, value in enumerate(values)]
    return build_batch(records, BatchFields(**fields))


def numbered(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> bytes:
    """A batch of an idempotent producer."""
    values = [b"v"] * count
    return batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def append_of(
    content: bytes, partition: TopicPartition = PARTITION, *, now: int = 5_000, epoch: int = EPOCH
) -> Append:
    return Append(partition, bytearray(content), LeaderEpoch(epoch), WallTime(now), from_client=True)


class Bench:
    """One storage with a log or two. ``restart`` closes it cleanly, ``die`` does not."""

    def __init__(
        self,
        disk: Disk,
        path: str = "data",
        *,
        config: LogConfig | None = None,
        policy: SyncPolicy = SyncPolicy.NEVER,
        executor: Executor | None = None,
    ) -> None:
        self.disk = disk
        self.path = path
        self.config = config or LogConfig()
        self.policy = policy
        self.executor = executor or Immediately()
        self.advanced: list[TopicPartition] = []
        self._timers = ExitStack()
        self.open()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return _RUNNER.run(work)

    def open(self, epoch: int = EPOCH) -> None:
        self._timers.close()  # no timer of a process that is gone fires in this one
        settings = StorageSettings(data_policy=self.policy, internal_policy=self.policy)
        self.directory = DataDirectory(self.disk, self.path)
        self.storage = LogStorage(self.directory, settings, self.executor)
        self._timers.callback(self.storage._flusher.close)
        self._timers.callback(self.storage._searches.shutdown)
        self.storage.on_advance(self.advanced.append)
        self.log = self.open_log(PARTITION, epoch)

    def open_log(self, partition: TopicPartition, epoch: int = EPOCH) -> SegmentedLog:
        spec = LogSpec(
            partition=partition, topic_id=TOPIC_ID, leader_epoch=LeaderEpoch(epoch), config=self.config
        )
        return self.storage.open_log(spec)

    def close(self) -> None:
        self.run(self.storage.close())

    def restart(self) -> None:
        self.close()
        self.open()

    def die(self) -> None:
        """The process is gone; its files are as they were."""
        self.directory.close(clean=False)

    def append(self, *contents: bytes, now: int = 5_000) -> list[Appended]:
        """Append to the log; all must succeed."""
        results = self.try_append([append_of(content, now=now) for content in contents])
        return [_accepted(result) for result in results]

    def refuse(self, content: bytes, epoch: int = EPOCH) -> RefusedError:
        """Append to the log; it must be refused."""
        (result,) = self.try_append([append_of(content, epoch=epoch)])
        assert isinstance(result, RefusedError), f"{result} was not refused"
        return result

    def try_append(self, appends: Sequence[Append]) -> list[Appended | RefusedError]:
        async def append() -> list[Appended | RefusedError]:
            return await self.storage.append(appends)

        return self.run(append())

    def compact(self, now: int) -> None:
        self.run(self.storage.compact(PARTITION, WallTime(now)))

    def records(self, offset: int | None = None) -> list[Record]:
        """Everything that can be read, from the start or from ``offset`` on."""
        return records_of(self.log, self.log.start_offset if offset is None else Offset(offset))

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records()]

    def names(self, partition: TopicPartition = PARTITION) -> list[str]:
        """The files of a partition."""
        return sorted(entry.name for entry in self.disk.entries(f"{self.path}/{partition}"))


def records_of(log: SegmentedLog, start: Offset, limit: Offset | None = None) -> list[Record]:
    """Read a log the way a consumer does, in small bites."""
    limit = log.end_offset if limit is None else limit
    found: list[Record] = []
    offset = start
    while offset < limit:
        piece = log.read(offset, 300, limit=limit, at_least_one=True)
        if not piece.size:
            break
        assert piece.next_offset > offset
        content = b"".join(piece.buffers)
        assert len(content) == piece.size
        for position, header in batches(content):
            found += [record for record in read_records(content, position, header) if record.offset >= offset]
        offset = piece.next_offset
    return found


def _accepted(result: Appended | RefusedError) -> Appended:
    assert isinstance(result, Appended), f"refused: {result!r}"
    return result


class OnDemand(Executor):
    """Keeps what is submitted until ``work`` is called: a disk that takes its time."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # belongs to whoever looks at the future
                future.set_exception(error)

        self.waiting.append(run)
        return future

    def work(self) -> int:
        """Do everything that waits; how much that was."""
        waiting, self.waiting = self.waiting, []
        for run in waiting:
            run()
        return len(waiting)


async def turn() -> None:
    """Let the loop do what is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


def committing(disk: Disk, executor: Executor | None = None, config: LogConfig | None = None) -> Bench:
    return Bench(disk, policy=SyncPolicy.COMMIT, executor=executor, config=config)


def code_of(result: Appended | RefusedError) -> ErrorCode | None:
    return result.code if isinstance(result, RefusedError) else None


def found(search: Coroutine[Any, Any, TimedOffset | None]) -> TimedOffset | None:
    """What a search finds."""
    return _RUNNER.run(search)
