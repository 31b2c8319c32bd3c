"""Repeat what fails for a passing reason: with exponential backoff, within a deadline."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kohort.client.settings import ClientOptions, Dice, backoff_ms
from kohort.model.errors import KohortError

T = TypeVar("T")


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
        dice: Dice = random.random,
    ) -> None:
        self._options = options
        self._sleep = sleep
        self._dice = dice

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
                pause = backoff_ms(failures, self._options, self._dice)
                if not error.retriable or deadline.left_ms <= pause:
                    raise
                recover(error)
            failures += 1
            await self._sleep(pause / 1_000)
