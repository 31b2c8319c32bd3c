"""What takes longer than others should wait, cut into steps that the loop can afford."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from typing import TypeAlias, TypeVar

from kohort.log.background import Threads, in_thread

T = TypeVar("T")
R = TypeVar("R")

Steps: TypeAlias = Generator[Callable[[], T] | None, T | None, R]
"""Gives way at each ``None`` it yields; whatever else it yields is called in a thread.

It is sent what that call returned, or gets thrown what that call raised. Others are served meanwhile: what it
knew of topics and logs may not be so any more.
"""


IN_A_SLICE = 10_000  # microseconds, about: what is done for one request before others have their turn


class Slice:
    """Counts what a request has cost since others had their turn.

    ``if slice_.is_full(price): yield None`` in steps, or ``await asyncio.sleep(0)`` in a coroutine. Prices
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


class HeavyWork:
    """Runs steps. One for a broker: one call at a time is in a thread, for each may need much memory."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._threads = Threads(1, "kohort-heavy")

    def close(self) -> None:
        """No more steps."""
        self._threads.shutdown(wait=False)

    def run(self, steps: Steps[T, R]) -> R | Awaitable[R]:
        """What the steps return: at once, if there is only one of them."""
        try:
            first = next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        return self._finish(steps, first)

    async def _finish(self, steps: Steps[T, R], step: Callable[[], T] | None) -> R:
        with closing(steps):
            try:
                while True:
                    try:
                        answer = await (asyncio.sleep(0) if step is None else self.call(step))
                    except Exception as error:
                        step = steps.throw(error)
                    else:
                        step = steps.send(answer)
            except StopIteration as end:
                result: R = end.value
                return result

    async def call(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, which runs in a thread when it is its turn."""
        async with self._turn:
            return await in_thread(self._threads, work)
