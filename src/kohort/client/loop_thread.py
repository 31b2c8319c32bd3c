"""An event loop on a thread of its own: what every client without ``async`` in its name runs on.

``LoopThread.run`` waits in the caller's thread, and callbacks come back into that thread. ``OwnerProcess``
tells whether the process was forked since: threads do not follow into a forked process.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from kohort.model.errors import KohortError

T = TypeVar("T")
_Calls = SimpleQueue[Callable[[], None] | None]

_PATIENCE_S = 5.0  # with tasks that were cancelled and still have something to end


class LoopThread:
    """The thread starts with the object and lives until ``stop``."""

    def __init__(
        self, name: str, new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    ) -> None:
        self._loop = new_loop()
        self._calls: _Calls | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def thread_id(self) -> int | None:
        return self._thread.ident

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. Its calls of ``invoke`` run here meanwhile, and may call ``run`` again.

        For one thread at a time; several threads use ``submit``.
        """
        calls: _Calls = SimpleQueue()
        outer, self._calls = self._calls, calls
        waited_for = _WaitedFor(work, self._loop, calls)
        self._loop.call_soon_threadsafe(waited_for.begin)
        try:
            while (call := calls.get()) is not None:
                call()
            return waited_for.result()
        except BaseException:
            self._calls = outer  # first: a call that comes during the cancellation must not wait for us
            self._loop.call_soon_threadsafe(waited_for.cancel)
            raise
        finally:
            self._calls = outer

    def do(self, call: Callable[[], T]) -> T:
        """The result of a plain function, called on the loop. From any thread."""

        async def work() -> T:
            return call()

        return self.submit(work()).result()

    async def invoke(self, call: Callable[[], object]) -> object:
        """On the loop: have ``call`` run in the thread that waits in ``run``."""
        done: asyncio.Future[object] = self._loop.create_future()
        calls = self._calls
        assert calls is not None, "no thread waits in run"

        def run_there() -> None:
            try:
                result = call()
            except Exception as error:
                self._loop.call_soon_threadsafe(_fail, done, error)
            else:
                self._loop.call_soon_threadsafe(_succeed, done, result)

        calls.put(run_there)
        return await done

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin ``work`` and do not wait. From any thread; such work cannot use ``invoke``."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call_soon(self, call: Callable[[], object]) -> None:
        """From any thread, without waiting."""
        self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """Cancel what still runs on the loop, wait some seconds until it has ended, and end the thread."""
        self.submit(_end_all_tasks()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _WaitedFor(Generic[T]):
    """Work on the loop for a thread that waits: ``run_coroutine_threadsafe`` at half its price."""

    __slots__ = ("_calls", "_loop", "_task", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, calls: _Calls) -> None:
        self._work = work
        self._loop = loop
        self._calls = calls
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # asyncio complains of an exception that is never asked for
        self._calls.put(None)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def result(self) -> T:
        assert self._task is not None
        return self._task.result()


def _succeed(done: asyncio.Future[object], result: object) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[object], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


async def _end_all_tasks() -> None:
    leaving = [task for task in _other_tasks() if task.cancelling()]
    if leaving:  # they may need the others for it
        await asyncio.wait(leaving, timeout=_PATIENCE_S)
    running = _other_tasks()
    for task in running:
        task.cancel()
    with suppress(TimeoutError):  # a task that ignores its cancellation is left behind
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(*running, return_exceptions=True)


def _other_tasks() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


# Counted instead of asked for: asking the operating system takes longer than sending a record.
_forks = [0]


def _note_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


class ForkedError(KohortError):
    """The client belongs to the process this one was forked from."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the {what} belongs to the process this one was forked from",
            hint=f"make a {what} in the process that uses it",
        )


class OwnerProcess:
    """The process in which this object was made."""

    __slots__ = ("_forks", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._forks = _forks[0]

    @property
    def is_another(self) -> bool:
        """Whether the code runs in a process that was forked since."""
        return self._forks != _forks[0]

    def check(self) -> None:
        """Raise ForkedError in any other process."""
        if self._forks != _forks[0]:
            raise ForkedError(self._what)
