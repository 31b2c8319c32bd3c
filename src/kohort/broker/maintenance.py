"""Work nobody asked for: retention, compaction, idle connections, logs that failed and may be well again.

Every job is short or gives way to the loop between its steps, and a job that fails is logged and
tried again at its next turn.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kohort.broker.broker import Broker
from kohort.broker.clock import Clock
from kohort.model.ids import Instant

logger = logging.getLogger("kohort.maintenance")

_REOPEN_EVERY_MS = 5_000


async def pause(clock: Clock, milliseconds: int) -> None:
    """Wait on the broker's own clock, which may be virtual."""
    over = asyncio.Event()
    alarm = clock.call_at(Instant(clock.now().instant + milliseconds), over.set)
    try:
        await over.wait()
    finally:
        alarm.cancel()


class Maintenance:
    """The background jobs of one broker, each a task that :meth:`stop` ends."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        configs = self._broker.configs
        self._every("retention", lambda: configs.number("log.retention.check.interval.ms"), self._retain)
        self._every("compaction", lambda: max(1, configs.number("log.cleaner.backoff.ms")), self._compact)
        self._every("reopening", lambda: _REOPEN_EVERY_MS, self._reopen)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _every(self, name: str, interval_ms: Callable[[], int], job: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            while True:
                await pause(self._broker.clock, interval_ms())
                try:
                    await job()
                except Exception:
                    logger.exception("%s failed; it will be tried again", name)

        self._tasks.append(asyncio.get_running_loop().create_task(run(), name=f"kohort {name}"))

    async def _retain(self) -> None:
        """Drop what is too old or too much, and producers that have been silent for a day."""
        after_ms = self._broker.configs.number("producer.id.expiration.ms")
        for log in list(self._broker.storage.logs()):
            now = self._broker.clock.now().wall
            dropped = log.apply_retention(now)
            log.expire_producers(now, after_ms)
            if dropped:
                logger.info("%s: retention dropped %d segments", log.partition, dropped)
            await asyncio.sleep(0)
        await self._broker.storage.checkpoint()

    async def _compact(self) -> None:
        for log in list(self._broker.storage.logs()):
            now = self._broker.clock.now().wall
            if log.failure is None and log.is_cleanable(now):
                await self._broker.storage.compact(log.partition, now)

    async def _reopen(self) -> None:
        """A log whose disk failed answers errors; recover it from its files once they can be read again."""
        for log in list(self._broker.storage.logs()):
            if log.failure is not None:
                logger.warning("%s failed (%s): recovering it from its files", log.partition, log.failure)
                self._broker.topics.replace_log(await self._broker.storage.reopen(log.partition))
