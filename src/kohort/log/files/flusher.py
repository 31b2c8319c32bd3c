"""Group commit: one round of syncs at a time, and whatever gathered meanwhile goes into the next."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

from kohort.log.background import describe
from kohort.log.files.segmented import SegmentedLog
from kohort.log.files.syncing import SyncJob
from kohort.log.log import Appended
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
        executor: Executor,
    ) -> None:
        self._settled = settled  # called with a log whose high watermark moved, or which failed
        self._interval = interval_ms / 1000
        self._threads = threads
        self.executor = executor
        self._wanted: dict[SegmentedLog, None] = {}
        self._soon: dict[SegmentedLog, None] = {}
        self._waiting: list[Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._starting = False
        self._jobs: list[tuple[SegmentedLog, SyncJob]] = []
        self._answered_by_round: list[Waiting] = []
        self._running = 0  # parts of the present round that are not done

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
        self.executor.shutdown(wait=False)

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
        well = [log for log in wanted if log.needs_sync and log.failure is None]
        self._jobs = [job for log in well if (job := self._begin(log)) is not None]
        parts = [self._jobs[first :: self._threads] for first in range(self._threads)]
        parts = [part for part in parts if part]
        self._running = len(parts)
        for part in parts:
            self._run([job for _, job in part])
        if not parts:
            self._finish()

    def _begin(self, log: SegmentedLog) -> tuple[SegmentedLog, SyncJob] | None:
        try:
            return log, log.begin_sync()
        except Exception as error:
            log.fail(f"{log.partition} could not be opened to be synced: {describe(error)}")
            self._settled(log)
            return None

    def _run(self, jobs: Sequence[SyncJob]) -> None:
        """Have one part of a round done in a thread; a thread that cannot be started is a failed sync."""
        try:
            done = asyncio.wrap_future(self.executor.submit(_run_all, jobs))
        except Exception as error:
            for job in jobs:
                job.error = error
            asyncio.get_running_loop().call_soon(self._part_done)
        else:
            done.add_done_callback(partial(self._look_at, jobs))

    def _look_at(self, jobs: Sequence[SyncJob], done: "asyncio.Future[None]") -> None:
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is not None:  # a job keeps its own errors: this one says nothing of how far they came
            for job in jobs:
                job.error = job.error or error
        self._part_done()

    def _part_done(self) -> None:
        self._running -= 1
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


def _run_all(jobs: Sequence[SyncJob]) -> None:
    for job in jobs:
        job.run()
