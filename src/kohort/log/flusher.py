"""Group commit: one round of syncs at a time, and whatever gathered meanwhile goes into the next."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from kohort.log.log import Appended
from kohort.log.segmented import SegmentedLog
from kohort.log.syncing import SyncJob
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset

Results = list[Appended | RefusedError]


@dataclass(slots=True)
class Waiting:
    """An append that is written and waits to be safe."""

    future: "asyncio.Future[Results]"
    results: Results
    needs: list[tuple[int, SegmentedLog, Offset]] = field(default_factory=list)  # result, log, last offset

    def settle(self) -> None:
        """Answer: every batch that is not below the high watermark by now has failed."""
        for number, log, last_offset in self.needs:
            if log.high_watermark <= last_offset:
                reason = log.failure or f"{log.partition} was truncated while this was written"
                self.results[number] = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        if not self.future.done():
            self.future.set_result(self.results)


class Flusher:
    """Syncs the logs that ask for it, a few files at a time, without holding up the loop."""

    def __init__(
        self,
        settled: Callable[[SegmentedLog], None],
        interval_ms: int,
        threads: int,
        executor: Executor | None,
    ) -> None:
        self._settled = settled  # told about a log whose high watermark moved, or which failed
        self._interval = interval_ms / 1000
        self._threads = threads
        self._executor = executor
        self._wanted: dict[SegmentedLog, None] = {}
        self._soon: dict[SegmentedLog, None] = {}
        self._waiting: list[Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._starting = False
        self._jobs: list[tuple[SegmentedLog, SyncJob]] = []
        self._answered_by_round: list[Waiting] = []
        self._running = 0  # parts of the present round that are not done

    @property
    def executor(self) -> Executor:
        """The threads, made when they are first needed."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="kohort-sync")
        return self._executor

    def commit(self, log: SegmentedLog) -> None:
        """Sync ``log`` once the present round is over; all who ask in one turn of the loop share the next."""
        self._wanted[log] = None
        self._schedule()

    def later(self, log: SegmentedLog) -> None:
        """Sync ``log`` within the interval."""
        self._soon[log] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._interval_over)

    def wait(self, waiting: Waiting) -> None:
        """Answer when the next round is over."""
        self._waiting.append(waiting)
        self._schedule()

    def close(self) -> None:
        """No more rounds. The last one must be over."""
        if self._timer is not None:
            self._timer.cancel()
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def _interval_over(self) -> None:
        self._timer = None
        self._wanted |= self._soon
        self._soon.clear()
        self._schedule()

    def _schedule(self) -> None:
        if not self._starting and not self._running:
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        """Begin a round with everything that is wanted now."""
        self._starting = False
        self._answered_by_round, self._waiting = self._waiting, []
        wanted, self._wanted = self._wanted, {}
        self._jobs = [job for log in wanted if log.needs_sync and (job := self._begin(log)) is not None]
        parts = [self._jobs[first :: self._threads] for first in range(self._threads)]
        parts = [part for part in parts if part]
        self._running = len(parts)
        loop = asyncio.get_running_loop()
        for part in parts:
            jobs = [job for _, job in part]
            loop.run_in_executor(self.executor, _run, jobs).add_done_callback(self._part_done)
        if not parts:
            self._finish()

    def _begin(self, log: SegmentedLog) -> tuple[SegmentedLog, SyncJob] | None:
        try:
            return log, log.begin_sync()
        except OSError as error:
            log.fail(f"{log.partition} could not be opened to be synced: {error}")
            self._settled(log)
            return None

    def _part_done(self, done: "asyncio.Future[None]") -> None:
        self._running -= 1
        error = done.exception()
        if error is not None:
            self._break(error)
        if not self._running:
            self._finish()

    def _finish(self) -> None:
        jobs, self._jobs = self._jobs, []
        for log, job in jobs:
            if log.end_sync(job) or job.error is not None:
                self._settled(log)
        answered, self._answered_by_round = self._answered_by_round, []
        for waiting in answered:
            waiting.settle()
        if self._wanted or self._waiting:
            self._schedule()

    def _break(self, error: BaseException) -> None:
        """A bug, not a disk: nothing of this round is known to be safe, and whoever waits is told."""
        for log, _ in self._jobs:
            log.fail(f"syncing {log.partition} broke: {error!r}")
        self._jobs = []
        for waiting in self._answered_by_round:
            if not waiting.future.done():
                waiting.future.set_exception(error)
        self._answered_by_round = []


def _run(jobs: Sequence[SyncJob]) -> None:
    for job in jobs:
        job.run()
