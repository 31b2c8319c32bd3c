"""All logs of a node, in one data directory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing, contextmanager, suppress
from functools import partial

from kohort.log.background import Threads, describe, finish, in_thread, report
from kohort.log.files.directory import DataDirectory, ForeignDirectoryError
from kohort.log.files.faults import StorageFaults
from kohort.log.files.flusher import Flusher, Results, Waiting
from kohort.log.files.log_files import OPEN_IN_THREAD, LogFiles, StorageSettings
from kohort.log.files.log_offsets import LogOffsets
from kohort.log.files.maintenance import FileMaintenance
from kohort.log.files.recovery import Recovered, Trust
from kohort.log.files.removal import DeletedLogs
from kohort.log.files.scrub import scrub, youngest_in
from kohort.log.files.search import Look
from kohort.log.files.segment import LOG, TIME_INDEX, OpenFiles
from kohort.log.files.segmented import LogServices, SegmentedLog
from kohort.log.log import (
    AdvanceListener,
    Append,
    FaultListener,
    Log,
    LogSpec,
    ReopenListener,
    Repair,
    SyncPolicy,
    TimedOffset,
    Upkeep,
)
from kohort.log.producers import ProducerRoom
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Partition, WallTime
from kohort.model.topics import Topic, TopicPartition
from kohort.records.batch import CorruptBatchError, LegacyFormatError

_AT_ONCE = 200  # logs that are closed or deleted before others have their turn


async def _all_is_well() -> None:
    """Of a catalog that cannot fail."""


class LogStorage:
    """The logs in a data directory. Implements ``kohort.log.log.Storage``.

    ``executor`` runs what blocks, and ends with this. ``repairs`` are those that were made before there was a
    storage. ``recover_catalog`` is called often, and makes a catalog that failed take changes again.
    """

    def __init__(
        self,
        directory: DataDirectory,
        settings: StorageSettings,
        executor: Executor,
        repairs: Iterable[Repair] = (),
        recover_catalog: Callable[[], Awaitable[None]] = _all_is_well,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._recover_catalog = recover_catalog
        self._open_files = OpenFiles(settings.open_files)
        self._logs: dict[TopicPartition, SegmentedLog] = {}
        self._unreadable: dict[TopicPartition, LogSpec] = {}  # partitions that could not be opened
        self._opening_again = asyncio.Lock()  # one log at a time: syncs need the threads as well
        self._recovering: dict[TopicPartition, asyncio.Future[None]] = {}  # in a thread, and when it is over
        self._compacting: dict[TopicPartition, asyncio.Future[None]] = {}  # likewise, in steps
        self._listeners: list[AdvanceListener] = []
        self._reopen_listeners: list[ReopenListener] = []
        self._repairs = list(repairs)
        self._executor = executor
        self._flusher = Flusher(self._notify, settings.sync_interval_ms, settings.sync_threads, executor)
        self._released: set[TopicPartition] = set()  # since the start: what it knows of them is old
        self._deleted = DeletedLogs(directory, executor)
        self._offsets = LogOffsets(directory, executor, self._logs.values)
        self._repairs += self._offsets.repairs
        self._noted = dict(directory.inventory.logs)  # what a clean stop has noted of each partition
        self._searching = asyncio.Lock()  # one look at a time: each may need much memory
        self._searches: Executor = Threads(1, "kohort-search")
        self._faults = StorageFaults()
        means = LogServices(self._look, self.checkpoint, ProducerRoom(), self._faults)
        self._files = LogFiles(directory, settings, means)

    # -- logs ------------------------------------------------------------------------------------------

    async def open(self, specs: Sequence[LogSpec]) -> list[Log | RefusedError]:
        logs: list[Log | RefusedError] = []
        for spec in specs:
            again = spec.partition in self._unreadable
            try:
                logs.append(await self._open_again(spec) if again else self.open_log(spec))
            except RefusedError as refusal:
                if not again:
                    self._unreadable[spec.partition] = spec
                logs.append(refusal)
        return logs

    def open_log(self, spec: LogSpec) -> SegmentedLog:
        """Raises ``RefusedError`` with KAFKA_STORAGE_ERROR when files cannot be read or written, or are not
        those of the partition.
        """
        partition = spec.partition
        assert partition not in self._logs, f"{partition} is open already"
        with self._refusing(partition):
            return self._opened(spec, self._files.recover(spec, self._trust(partition), self._open_files))

    async def _open_again(self, spec: LogSpec) -> SegmentedLog:
        """As ``open_log``, in a thread: the disk has failed, and may be slow to say so again."""
        unreadable = self._unreadable[spec.partition]
        async with self._opening_again:
            if self._unreadable.get(spec.partition) is not unreadable:
                raise self._no_log(spec.partition)  # it was deleted, or is led elsewhere
            self._recovering[spec.partition] = asyncio.get_running_loop().create_future()
            return await finish(self._open_in_thread(spec), f"opening {spec.partition}")

    async def _open_in_thread(self, spec: LogSpec) -> SegmentedLog:
        partition = spec.partition
        try:
            with self._refusing(partition):
                own = OpenFiles(OPEN_IN_THREAD)
                found = await in_thread(
                    self._executor, partial(self._files.recover, spec, self._trust(partition), own)
                )
                return self._opened(spec, found)
        finally:
            self._recovering.pop(partition).set_result(None)

    async def _at_rest(self, partition: TopicPartition) -> None:
        """Wait while a thread recovers the partition, and until a compaction has given up: each of them must
        find its files where they are.
        """
        while (busy := self._recovering.get(partition) or self._compacting.get(partition)) is not None:
            if partition in self._logs:
                self._logs[partition].layout += 1  # a compaction notices at its next step
            await asyncio.wait([busy])

    @contextmanager
    def _refusing(self, partition: TopicPartition) -> Iterator[None]:
        """What keeps a log from being opened, as KAFKA_STORAGE_ERROR."""
        try:
            yield
        except (OSError, MemoryError, ForeignDirectoryError, LegacyFormatError) as error:
            path = self._directory.path
            raise RefusedError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{partition} cannot be opened in {self._files.path(partition)!r}: {describe(error)}; "
                f"`kohort data check {path}` says what is wrong, `kohort data repair {path}` mends it",
            ) from error

    def _trust(self, partition: TopicPartition) -> Trust:
        """What is known about a log that is to be opened."""
        self._deleted.set_aside(
            self._files.path(partition)
        )  # if a deleted topic of the same name has left it
        clean = self._directory.was_closed_cleanly and partition not in self._released
        return Trust(
            clean,
            self._offsets.recovery_point(partition),
            self._offsets.start(partition),
            has_checksums=self._offsets.have_checksums,
            files=self._noted.get(str(partition)) if clean else None,
        )

    def _opened(self, spec: LogSpec, found: Recovered) -> SegmentedLog:
        partition = spec.partition
        log, repairs = self._files.make(spec, found, self._open_files)
        log.join(self._open_files)
        self._repairs += repairs
        log.cleaned_up_to = min(self._offsets.cleaned_up_to(partition), log.end_offset)
        self._released.discard(partition)
        self._unreadable.pop(partition, None)
        self._logs[partition] = log
        return log

    async def release(self, partitions: Iterable[TopicPartition]) -> None:
        for number, partition in enumerate(partitions):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            await self._at_rest(partition)
            self._unreadable.pop(partition, None)
            log = self._logs.pop(partition, None)
            if log is not None:
                self._offsets.note(log)
                self._released.add(partition)
                log.fail(f"{partition} is not led here any more")
                log.release()
                self._notify(log)

    def log(self, partition: TopicPartition) -> SegmentedLog:
        log = self._logs.get(partition)
        if log is None:
            raise self._no_log(partition)
        return log

    def _no_log(self, partition: TopicPartition) -> RefusedError:
        if partition in self._unreadable:
            return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} cannot be read now")
        return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} has no log here")

    def logs(self) -> Iterable[SegmentedLog]:
        return self._logs.values()

    async def destroy(self, topic: Topic) -> None:
        for index in range(topic.partitions):
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)
            partition = TopicPartition(topic.name, Partition(index))
            await self._at_rest(partition)
            self.delete_log(partition)

    def delete_log(self, partition: TopicPartition) -> None:
        """Close the log and remove its files. What was being appended is answered KAFKA_STORAGE_ERROR."""
        log = self._logs.pop(partition, None)
        self._released.discard(partition)
        opened = log or self._unreadable.pop(partition, None)
        if opened is None:
            return
        if log is not None:
            log.fail(f"{partition} is deleted")
            log.release()
        self._offsets.forget(partition)
        self._noted.pop(str(partition), None)
        self._deleted.remove(partition, opened.topic_id)
        if log is not None:
            self._notify(log)

    async def remove_deleted(self) -> None:
        """Remove what deleted logs have left; raises ``OSError`` if that is not possible now."""
        await self._deleted.try_again()

    def on_advance(self, listener: AdvanceListener) -> None:
        self._listeners.append(listener)

    def on_reopen(self, listener: ReopenListener) -> None:
        self._reopen_listeners.append(listener)

    def on_fault(self, listener: FaultListener) -> None:
        self._faults.warn = listener

    def reports(self) -> list[Repair]:
        repairs, self._repairs = self._repairs, []
        return repairs

    # -- appending -------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append]) -> "asyncio.Future[Results]":
        future: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        results: Results = []
        waiting: Waiting | None = None
        for append in appends:
            log = self._logs.get(append.partition)
            try:
                if log is None:
                    raise self._no_log(append.partition)
                done = log.append(append)
            except RefusedError as refusal:
                results.append(refusal)
                continue
            if log.high_watermark <= done.last_offset:
                waiting = waiting or Waiting(future, results)
                waiting.needs.append((len(results), log, done.last_offset))
                self._flusher.commit(log)
            elif not done.duplicate:
                self._advanced(log)
            results.append(done)
        if waiting is None:
            future.set_result(results)
        else:
            self._flusher.wait(waiting)
        return future

    def _advanced(self, log: SegmentedLog) -> None:
        if log.policy is SyncPolicy.INTERVAL:
            self._flusher.later(log)
        self._notify(log)

    def _notify(self, log: SegmentedLog) -> None:
        for listener in self._listeners:
            try:
                listener(log.partition)
            except Exception as error:  # the log and all others who wait for it must not suffer
                report(f"a fetch that waits for {log.partition}", error)

    # -- in the background -----------------------------------------------------------------------------

    async def maintain(self, upkeep: Upkeep) -> None:
        await FileMaintenance(self, upkeep, self._recover_catalog).run(scrubs=self._settings.scrubs)

    async def flush(self) -> None:
        """Sync everything that is written."""
        for log in self._logs.values():
            if log.needs_sync and log.failure is None:
                self._flusher.commit(log)
        await self._round()

    async def checkpoint(self) -> None:
        """Raises ``RefusedError`` with KAFKA_STORAGE_ERROR when they cannot be written."""
        await self._offsets.checkpoint()

    async def compact(self, partition: TopicPartition, now: WallTime) -> None:
        """Raises ``RefusedError`` with KAFKA_STORAGE_ERROR; the log is as it was, or says why it failed."""
        assert partition not in self._compacting, f"{partition} is being compacted already"
        ended = self._compacting[partition] = asyncio.get_running_loop().create_future()
        try:
            with closing(self.log(partition).compact(now)) as steps:
                for work in steps:
                    if work is None:
                        await asyncio.sleep(0)
                    else:
                        await self._blocking(work)
        except CorruptBatchError as error:
            raise RefusedError(
                ErrorCode.CORRUPT_MESSAGE, f"{partition} is damaged and stays as it is: {error}"
            ) from error
        except (OSError, MemoryError) as error:
            raise RefusedError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"compacting {partition} failed: {describe(error)}"
            ) from error
        finally:
            del self._compacting[partition]
            ended.set_result(None)

    async def make_sure_of_ages(self, log: SegmentedLog, now: WallTime) -> list[str]:
        """Read segments that seem too old, in a thread; returns the time indexes that are wrong."""
        wrong = []
        for segment in log.seem_too_old(now):
            said = segment.youngest
            read = partial(youngest_in, self._directory.disk, segment, segment.size)
            with suppress(FileNotFoundError):  # it went meanwhile
                found = await in_thread(self._executor, read)
                segment.learn_age(said, found)
                if said[0] != found[0]:
                    wrong.append(f"{segment.path}{TIME_INDEX}")
        return wrong

    async def scrub(
        self, partition: TopicPartition, rest: Callable[[int], Awaitable[None]]
    ) -> AsyncIterator[Repair]:
        """Compare the checksums of all batches: what is damaged and was not known to be, when it is found.

        ``rest`` is called with the number of bytes after each step, to keep to a rate. Damage is answered
        CORRUPT_MESSAGE from then on, and stays where it is.
        """

        async def step(work: Callable[[], int]) -> int:
            return await in_thread(self._executor, work)

        async for segment, damage in scrub(self.log(partition), self._directory.disk, step, rest):
            yield Repair(f"{segment.path}{LOG}", f"bytes {damage.start} to {damage.end}: {damage.reason}")

    async def reopen(self, partition: TopicPartition) -> SegmentedLog:
        """Recover a log that has failed, in a thread; it answers KAFKA_STORAGE_ERROR meanwhile.

        Raises ``RefusedError`` with KAFKA_STORAGE_ERROR while files cannot be read or written.
        """
        old = self.log(partition)
        async with self._opening_again:
            await self._round()  # a sync that is under way still holds the files
            await self._at_rest(partition)
            if self._logs.get(partition) is not old:
                raise self._deleted_meanwhile(partition)
            self._recovering[partition] = asyncio.get_running_loop().create_future()
            log = await finish(self._reopen_in_thread(old), f"reopening {partition}")
        await self.flush()
        if self._logs.get(partition) is not log:
            raise self._deleted_meanwhile(partition)
        self._reopened(log)
        return log

    async def _reopen_in_thread(self, old: SegmentedLog) -> SegmentedLog:
        partition = old.partition
        try:
            with old.recovering():
                log, repairs = await in_thread(self._executor, partial(self._files.recover_again, old))
        except (OSError, MemoryError) as error:
            raise RefusedError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} cannot be recovered: {describe(error)}"
            ) from error
        finally:
            self._recovering.pop(partition).set_result(None)
        log.join(self._open_files)
        log.reconfigure(old.config)
        log.cleaned_up_to = min(old.cleaned_up_to, log.end_offset)
        self._repairs += repairs
        self._logs[partition] = log
        return log

    @staticmethod
    def _deleted_meanwhile(partition: TopicPartition) -> RefusedError:
        return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} was deleted meanwhile")

    def _reopened(self, log: SegmentedLog) -> None:
        for listener in self._reopen_listeners:
            listener(log)
        self._notify(log)

    async def close(self, *, started: bool = True) -> None:
        for partition in [*self._recovering, *self._compacting]:
            await self._at_rest(partition)
        await self._round()
        try:
            for log in self._logs.values():
                log.prepare_close()
            await self.flush()
            await self.checkpoint()
        except (OSError, RefusedError, MemoryError) as error:
            report(f"closing {self._directory.path!r}", error, "; the next start recovers its logs")
            clean = False
        else:
            clean = not self._unreadable and not any(log.failure for log in self._logs.values())
        if not started:  # some logs may not have been looked at
            clean &= self._directory.was_closed_cleanly
        inventory = self._files.inventory(self._logs) if clean and started else None
        for log in self._logs.values():
            log.release()
        self._flusher.close()
        self._searches.shutdown(wait=False)
        self._directory.close(clean=clean, inventory=inventory)

    async def _round(self) -> None:
        """Wait until everything that is asked to be synced by now is."""
        future: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        self._flusher.wait(Waiting(future, []))
        await future

    async def _look(self, look: Look) -> TimedOffset | None:
        async with self._searching:
            return await in_thread(self._searches, look)

    async def _blocking(self, work: Callable[[], None]) -> None:
        await in_thread(self._executor, work)
