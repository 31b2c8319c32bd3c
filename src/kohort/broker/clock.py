"""The broker's time: real, or virtual in tests.

Everything with a meaning in the protocol (sessions, rebalance timeouts, retention, timestamps)
runs on this clock. Only the wait of a long poll runs on the event loop's own time, because a
real client is waiting at the other end of it.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kohort.model.ids import Instant, Now, WallTime


class Alarm(Protocol):
    """A callback that has been asked for; asyncio's timer handles are alarms."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Where the broker gets its time, and how it asks to be woken."""

    def now(self) -> Now: ...

    def instant(self) -> Instant:
        """Half of ``now``: for heartbeats, which come in masses."""
        ...

    def call_at(self, instant: Instant, callback: Callable[[], None]) -> Alarm: ...


class RealClock:
    """The machine's time, with alarms on the running event loop."""

    def now(self) -> Now:
        return Now(Instant(time.monotonic_ns() // 1_000_000), WallTime(time.time_ns() // 1_000_000))

    def instant(self) -> Instant:
        return Instant(time.monotonic_ns() // 1_000_000)

    def call_at(self, instant: Instant, callback: Callable[[], None]) -> Alarm:
        # Loops round timers to about a millisecond: one more, so that an alarm is late rather than early.
        delay = instant + 1 - time.monotonic_ns() / 1_000_000
        return asyncio.get_running_loop().call_later(max(delay, 0) / 1_000, callback)


class _VirtualAlarm:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """Time that stands still until :meth:`advance` moves it; alarms run in the order they are due.

    An alarm for now needs no advance where an event loop runs: the loop rings it in its next turn.
    """

    def __init__(self, *, wall: int = 1_700_000_000_000) -> None:
        self._instant = 0
        self._wall_at_zero = wall
        self._order = itertools.count()
        self._alarms: list[tuple[int, int, _VirtualAlarm]] = []

    def now(self) -> Now:
        return Now(Instant(self._instant), WallTime(self._wall_at_zero + self._instant))

    def instant(self) -> Instant:
        return Instant(self._instant)

    def call_at(self, instant: Instant, callback: Callable[[], None]) -> Alarm:
        alarm = _VirtualAlarm(callback)
        heapq.heappush(self._alarms, (max(instant, self._instant), next(self._order), alarm))
        if instant <= self._instant:
            with suppress(RuntimeError):  # no loop is running: the next advance rings it
                asyncio.get_running_loop().call_soon(self.advance, 0)
        return alarm

    def set_wall(self, milliseconds: int) -> None:
        """Set the wall clock forward, or back, as an administrator does: no time passes."""
        self._wall_at_zero += milliseconds

    def stall(self, milliseconds: int) -> None:
        """Let time pass as on a machine that is too busy: the next advance rings what was due, late."""
        self._instant += milliseconds

    def advance(self, milliseconds: int) -> None:
        """Move time on, running every alarm that comes due at its own instant."""
        goal = self._instant + milliseconds
        while self._alarms and self._alarms[0][0] <= goal:
            due, _, alarm = heapq.heappop(self._alarms)
            self._instant = max(due, self._instant)
            if not alarm.cancelled:
                alarm.callback()
        self._instant = goal


async def pause(clock: Clock, milliseconds: int) -> None:
    """Wait on the broker's own clock, which may be virtual."""
    over = asyncio.Event()
    alarm = clock.call_at(Instant(clock.now().instant + milliseconds), over.set)
    try:
        await over.wait()
    finally:
        alarm.cancel()
