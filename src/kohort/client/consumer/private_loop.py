"""An event loop on a thread of its own, and a way back into the thread of whoever waits for it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from kohort.client.loop_end import end_loop

T = TypeVar("T")


class PrivateLoop:
    """``run`` goes to the loop and waits. Meanwhile ``invoke``, has calls run in that thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._inbox: SimpleQueue[Callable[[], None] | None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. May be called again from inside a call that ``invoke`` runs here."""
        inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        outer, self._inbox = self._inbox, inbox
        errand = _Errand(work, self._loop, inbox)
        self._loop.call_soon_threadsafe(errand.begin)
        try:
            while (call := inbox.get()) is not None:
                call()
            return errand.result()
        except BaseException:
            self._inbox = outer  # before: what still wants to be called on the way out must not wait for us
            self._loop.call_soon_threadsafe(errand.cancel)
            raise
        finally:
            self._inbox = outer

    async def invoke(self, call: Callable[[], object]) -> object:
        """Run ``call`` in the thread that waits in ``run``."""
        done: asyncio.Future[object] = self._loop.create_future()
        inbox = self._inbox
        assert inbox is not None, "nobody waits who could run it"

        def run_there() -> None:
            try:
                result = call()
            except Exception as error:
                self._loop.call_soon_threadsafe(_fail, done, error)
            else:
                self._loop.call_soon_threadsafe(_succeed, done, result)

        inbox.put(run_there)
        return await done

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Have ``work`` done without waiting, from any thread. There is nobody ``invoke`` could call then."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call_soon(self, call: Callable[[], object]) -> None:
        """From any thread, without waiting."""
        self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """End the thread, and what an interrupt may have left running on the loop."""
        end_loop(self._loop, self._thread)


class _Errand(Generic[T]):
    """Work on the loop for a thread that waits: ``run_coroutine_threadsafe`` at half its price."""

    __slots__ = ("_inbox", "_loop", "_task", "_work")

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        loop: asyncio.AbstractEventLoop,
        inbox: SimpleQueue[Callable[[], None] | None],
    ) -> None:
        self._work = work
        self._loop = loop
        self._inbox = inbox
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # if the thread was interrupted meanwhile, nobody else asks for it
        self._inbox.put(None)

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
