"""What takes longer than others should wait, cut into steps that the loop can afford."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from concurrent.futures import Executor
from contextlib import asynccontextmanager, closing
from typing import TypeAlias, TypeVar

from kohort.log.background import Threads, in_thread

T = TypeVar("T")
R = TypeVar("R")

Step: TypeAlias = Callable[[], T] | Awaitable[T] | None
Steps: TypeAlias = Generator[Step[T], T | None, R]
"""Gives way at each ``None`` it yields; an awaitable is awaited, anything else is called in a thread.

It is sent what came of that, or gets thrown what was raised. Others are served meanwhile: what it
knew of topics and logs may not be so any more.
"""


LARGE_AT_A_TIME = 4  # requests with thousands of entries, from reading to the bytes of the reply

IN_A_SLICE = 10_000  # microseconds, about: what is done for one request before others have their turn


class WorkSlice:
    """Counts what a request has cost since others had their turn.

    ``if slice_.is_full(price): yield None`` in steps, or ``await slice_.spend(price)`` in a coroutine. Prices
    are about microseconds, and counted, not measured: a request is cut at the same places every time.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = IN_A_SLICE

    def is_full(self, price: int) -> bool:
        """Whether it is time to give way; the next slice then begins."""
        self._left -= price
        if self._left > 0:
            return False
        self._left = IN_A_SLICE
        return True

    async def spend(self, price: int) -> None:
        """Let others have their turn when it is time to give way."""
        if self.is_full(price):
            await asyncio.sleep(0)


class HeavyTurn:
    """The place of one large request among the few that are worked on at a time, until it is ``over``.

    Decoded, with all that is made of it, a request takes many times the bytes it came in.
    """

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """The work is done, or only waits from here on."""
        if not self.over.done():
            self.over.set_result(None)
            self._places.release()


class HeavyWork:
    """Runs steps. One for a broker: one call at a time is in a thread, for each may need much memory."""

    def __init__(self, executor: Executor | None = None) -> None:
        self._turn = asyncio.Lock()
        self._places = asyncio.Semaphore(LARGE_AT_A_TIME)
        self._threads = executor or Threads(1, "kohort-heavy")

    def close(self) -> None:
        """No more steps."""
        self._threads.shutdown(wait=False)

    async def turn(self) -> HeavyTurn:
        """Wait for a place; first come, first served."""
        await self._places.acquire()
        return HeavyTurn(self._places)

    @asynccontextmanager
    async def its_turn(self) -> AsyncIterator[None]:
        """The same for a block."""
        turn = await self.turn()
        try:
            yield
        finally:
            turn.end()

    def run(self, steps: Steps[T, R]) -> R | Awaitable[R]:
        """What the steps return: at once, if there is only one of them."""
        try:
            first = next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        return self._finish(steps, first)

    async def _finish(self, steps: Steps[T, R], step: Step[T]) -> R:
        with closing(steps):
            try:
                while True:
                    try:
                        answer = await self._take(step)
                    except Exception as error:
                        step = steps.throw(error)
                    else:
                        step = steps.send(answer)
            except StopIteration as end:
                result: R = end.value
                return result

    async def _take(self, step: Step[T]) -> T | None:
        if step is None:
            await asyncio.sleep(0)
            return None
        return await (step if isinstance(step, Awaitable) else self.call(step))

    async def call(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, which runs in a thread when it is its turn."""
        async with self._turn:
            return await in_thread(self._threads, work)
