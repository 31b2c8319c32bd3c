"""Work that no request asks for: retention, compaction, and whatever failed and may be well again.

Every job is short or gives way to the loop between its steps. A log that fails a job does not keep the others
from theirs; it has its next turn with them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from kohort.broker.broker import Broker
from kohort.broker.clock import pause
from kohort.log.background import Background, report
from kohort.log.log import Log
from kohort.model.ids import WallTime
from kohort.model.steady_time import PATIENCE_MS, SteadyTime
from kohort.model.topics import TopicPartition

logger = logging.getLogger("kohort.maintenance")

_LOOK_FOR_FAILURES_MS = 1_000
_FIRST_SCRUB_MS = 60_000
_SCRUB_EVERY_MS = 86_400_000


class Maintenance:
    """The background jobs of one broker, until :meth:`stop` ends them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._background = Background(partial(pause, broker.clock))
        self._next_scrub_ms = _FIRST_SCRUB_MS
        self._deletion_time = SteadyTime()
        self._deletion_time.at(broker.clock.now())

    def start(self) -> None:
        configs, every = self._broker.configs, self._background.every
        every("retention", lambda: configs.number("log.retention.check.interval.ms"), self._retain)
        every("compaction", lambda: max(1, configs.number("log.cleaner.backoff.ms")), self._compact)
        every("looking for failed logs", lambda: _LOOK_FOR_FAILURES_MS, self._reopen)
        every("recovering the catalog", lambda: _LOOK_FOR_FAILURES_MS, self._broker.catalog.recover)
        every("removing deleted logs", lambda: _LOOK_FOR_FAILURES_MS, self._broker.storage.remove_deleted)

        if self._broker.settings.data is not None:
            every("scrubbing", self._scrub_wait_ms, self._scrub)

    async def stop(self) -> None:
        await self._background.stop()

    async def _each(self, job: str, visit: Callable[[Log], Awaitable[None]]) -> None:
        for log in list(self._broker.storage.logs()):
            try:
                await visit(log)
            except Exception as error:
                report(f"{job} of {log.partition}", error, "; it is tried again at its next turn")

    async def _retain(self) -> None:
        """Drop what is too old or too much, and producers that have been silent for a day."""
        await self._each("retention", self._retain_one)
        await self._broker.storage.checkpoint()

    async def _retain_one(self, log: Log) -> None:
        now = self._now()
        dropped = log.apply_retention(now)
        log.expire_producers(now, self._broker.configs.number("producer.id.expiration.ms"))
        if dropped:
            logger.info("%s: retention dropped %d segments", log.partition, dropped)
        await asyncio.sleep(0)

    async def _compact(self) -> None:
        await self._each("compaction", self._compact_one)

    async def _compact_one(self, log: Log) -> None:
        now = self._now()
        if log.failure is None and log.is_cleanable(now):
            await self._broker.storage.compact(log.partition, now)

    def _now(self) -> WallTime:
        """The time that deletion goes by; logs when the wall clock jumps, and when that is over."""
        before = self._deletion_time.jump
        wall = self._deletion_time.at(self._broker.clock.now())
        jump = self._deletion_time.jump
        if jump is not None and jump is not before:
            ahead, patience = timedelta(milliseconds=jump.ahead_ms), timedelta(milliseconds=PATIENCE_MS)
            logger.warning(
                "the wall clock went forward by %s: nothing is deleted on account of that for %s, or until "
                "a restart; set the clock right if it is wrong",
                ahead,
                patience,
            )
        elif jump is None and before is not None:
            logger.warning("retention and compaction go by the wall clock again")
        return wall

    def _scrub_wait_ms(self) -> int:
        """A first round soon after the start, then one a day."""
        wait, self._next_scrub_ms = self._next_scrub_ms, _SCRUB_EVERY_MS
        return wait

    async def _scrub(self) -> None:
        """Read closed segments again, slowly, and say what has changed on the disk."""
        await self._each("scrubbing", self._scrub_one)

    async def _scrub_one(self, log: Log) -> None:
        if self._scrub_rate() == 0:
            return
        for found in await self._broker.storage.scrub(log.partition, self._rest_after):
            logger.error(
                "%s is damaged: %s: %s; a fetch of it is answered CORRUPT_MESSAGE. "
                "Stop the broker and run `kohort data repair`",
                log.partition,
                found.directory,
                found.what,
            )

    async def _rest_after(self, size: int) -> None:
        await pause(self._broker.clock, 1_000 * size // max(self._scrub_rate(), 1))

    def _scrub_rate(self) -> int:
        return self._broker.configs.number("kohort.scrub.bytes.per.second")

    async def _reopen(self) -> None:
        """A log whose disk failed answers errors; recover each from its files once they can be read again."""
        for log in self._broker.storage.logs():
            if log.failure is not None:
                self._background.keep(f"reopening {log.partition}", partial(self._reopen_one, log.partition))

    async def _reopen_one(self, partition: TopicPartition) -> None:
        log = next((log for log in self._broker.storage.logs() if log.partition == partition), None)
        if log is not None and log.failure is not None:
            logger.warning("%s failed (%s): recovering it from its files", log.partition, log.failure)
            self._broker.topics.replace_log(await self._broker.storage.reopen(partition))
