"""When to try again: exponential backoff with jitter, within a deadline."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kohort.client.options import ClientOptions
from kohort.model.errors import KohortError

T = TypeVar("T")

_GROWTH = 2.0
_JITTER = 0.2


def backoff_ms(attempt: int, options: ClientOptions, jitter: float) -> float:
    """The pause after failure number ``attempt`` (from 0); ``jitter`` between -1 and 1 spreads it by 20 %."""
    first, largest = options.retry_backoff_ms, options.retry_backoff_max_ms
    grown = min(first * _GROWTH ** min(attempt, 32), largest)
    return float(min(grown * (1 + _JITTER * jitter), largest))


class Deadline:
    """A moment after which nothing is tried any more. ``now`` is a clock in seconds."""

    def __init__(self, milliseconds: float, now: Callable[[], float] | None = None) -> None:
        self._now = now or asyncio.get_running_loop().time
        self._at = self._now() + milliseconds / 1_000

    @property
    def left_ms(self) -> float:
        return max(0.0, (self._at - self._now()) * 1_000)


class Retry:
    """Repeats an attempt as long as its failure is retriable and the deadline leaves room for a pause."""

    def __init__(
        self,
        options: ClientOptions,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = lambda: random.uniform(-1, 1),
    ) -> None:
        self._options = options
        self._sleep = sleep
        self._jitter = jitter

    async def run(
        self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, recover: Callable[[KohortError], None]
    ) -> T:
        """The result of the first attempt that succeeds, else the last failure.

        ``recover`` hears of each failure that is followed by another attempt, to forget what was wrong.
        """
        failures = 0
        while True:
            try:
                return await attempt()
            except KohortError as error:
                pause = backoff_ms(failures, self._options, self._jitter())
                if not error.retriable or deadline.left_ms <= pause:
                    raise
                recover(error)
            failures += 1
            await self._sleep(pause / 1_000)
