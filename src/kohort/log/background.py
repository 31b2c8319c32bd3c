"""Work beside the requests: every thread and every task has an owner that notices when it fails.

``Threads`` runs what blocks, ``Background`` owns tasks. No other module of the log and the broker starts a
task or a thread (a test lists the few exceptions).
"""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from kohort.model.errors import KohortError

P = ParamSpec("P")
T = TypeVar("T")

Pause = Callable[[int], Awaitable[None]]  # waits for milliseconds on the broker's clock

logger = logging.getLogger("kohort.background")

FIRST_BACKOFF_MS = 100
LONGEST_BACKOFF_MS = 3_000
_EXPECTED = (OSError, KohortError, MemoryError)  # a fault of the machine: one line says it all


class ThreadStartError(OSError):
    """The system has no thread for us now, as under a limit on processes."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(errno.EAGAIN, f"no thread can be started ({reason})")


class Threads(Executor):
    """A few threads, started when they are first needed.

    ``submit`` raises ``ThreadStartError`` when there is no thread and none can be started; the work is not
    done then, and not later. As long as one thread runs, work waits for it instead.
    """

    def __init__(self, most: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._has_thread = False
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # it belongs to the owner of the future
                    future.set_exception(error)

        try:
            self._pool.submit(run)
            self._has_thread = True
        except (RuntimeError, MemoryError) as error:
            # The pool may have queued ``run`` already: a thread that exists, or starts later, calls it.
            stays = self._has_thread and not self._closed and not isinstance(error, MemoryError)
            if not stays and future.cancel():
                raise ThreadStartError(error) from error
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


async def in_thread(executor: Executor, work: Callable[[], T]) -> T:
    """What ``work`` returns or raises, called in a thread."""
    return await asyncio.wrap_future(executor.submit(work))


async def finish(work: Coroutine[Any, Any, T], name: str) -> T:
    """Run ``work`` to its end, also when the caller is cancelled; it then reports a failure itself."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: report(name, done.exception()) if not done.cancelled() else None)
        raise


def report(what: str, error: BaseException | None, then: str = "") -> None:
    """One line about something that failed; with a traceback if no fault of the machine explains it."""
    if error is not None:
        trace = None if isinstance(error, _EXPECTED) else error
        logger.warning("%s failed: %s%s", what, describe(error), then, exc_info=trace)


def describe(error: BaseException) -> str:
    """An error in one line; a ``MemoryError`` has no text of its own."""
    return str(error) or type(error).__name__


async def persist(
    pause: Pause, name: str, attempt: Callable[[], Awaitable[T]], longest_ms: int = LONGEST_BACKOFF_MS
) -> T:
    """What ``attempt`` returns, which is tried until it succeeds, with a growing pause after each failure.

    A failure for the same reason as before is not reported again.
    """
    backoff = FIRST_BACKOFF_MS
    said = ""
    while True:
        try:
            return await attempt()
        except Exception as error:
            if describe(error) != said:
                report(name, error, f"; it is tried again in {backoff} ms")
            said = describe(error)
        await pause(backoff)
        backoff = min(2 * backoff, longest_ms)


class Background:
    """The background tasks of one owner. Whatever fails is reported in one line and tried again."""

    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def keep(
        self, name: str, attempt: Callable[[], Awaitable[None]], longest_ms: int = LONGEST_BACKOFF_MS
    ) -> None:
        """``persist`` in the background.

        Does nothing while a task of that name is under way.
        """

        async def run() -> None:
            await persist(self._pause, name, attempt, longest_ms)
            del self._tasks[name]  # in the same step as the end of ``attempt``: the next call starts a task

        if name not in self._tasks:
            self._start(name, run())

    def every(self, name: str, interval_ms: Callable[[], int], job: Callable[[], Awaitable[None]]) -> None:
        """Do ``job`` after each interval, for ever; after a failure sooner than that."""

        async def run() -> None:
            while True:
                await self._pause(interval_ms())
                await persist(self._pause, name, job)

        self._start(name, run())

    async def stop(self) -> None:
        """Cancel all tasks and wait for their end."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"kohort {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
