"""What files need that no request asks for: retention, compaction, scrubbing, another try of what failed.

Every job is short or gives way to the loop between its steps. A log that fails a job does not keep the others
from theirs; it has its next turn with them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from kohort.log.background import Background, report
from kohort.log.files.segmented import SegmentedLog
from kohort.log.log import Upkeep
from kohort.model.topics import TopicPartition

if TYPE_CHECKING:
    from kohort.log.files.storage import LogStorage

logger = logging.getLogger("kohort.maintenance")

_LOOK_FOR_FAILURES_MS = 1_000
_FIRST_SCRUB_MS = 60_000
_SCRUB_EVERY_MS = 86_400_000


class FileMaintenance:
    """The jobs of one storage, until ``run`` is cancelled."""

    def __init__(
        self, storage: "LogStorage", upkeep: Upkeep, recover_catalog: Callable[[], Awaitable[None]]
    ) -> None:
        self._storage = storage
        self._upkeep = upkeep
        self._recover_catalog = recover_catalog
        self._background = Background(upkeep.pause)
        self._next_scrub_ms = _FIRST_SCRUB_MS

    async def run(self, *, scrubs: bool) -> None:
        number, every = self._upkeep.number, self._background.every
        every("retention", lambda: number("log.retention.check.interval.ms"), self._retain)
        every("compaction", lambda: max(1, number("log.cleaner.backoff.ms")), self._compact)
        every("looking for failed logs", lambda: _LOOK_FOR_FAILURES_MS, self._reopen)
        every("recovering the catalog", lambda: _LOOK_FOR_FAILURES_MS, self._recover_catalog)
        every("removing deleted logs", lambda: _LOOK_FOR_FAILURES_MS, self._storage.remove_deleted)
        if scrubs:
            every("scrubbing", self._scrub_wait_ms, self._scrub)
        try:
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        finally:
            await self._background.stop()

    async def _each(self, job: str, visit: Callable[[SegmentedLog], Awaitable[None]]) -> None:
        for log in list(self._storage.logs()):
            try:
                await visit(log)
            except Exception as error:
                report(f"{job} of {log.partition}", error, "; it is tried again at its next turn")

    async def _retain(self) -> None:
        """Drop what is too old or too much, and producers that have been silent for a day."""
        await self._each("retention", self._retain_one)
        await self._storage.checkpoint()

    async def _retain_one(self, log: SegmentedLog) -> None:
        now = self._upkeep.now()
        for path in await self._storage.make_sure_of_ages(log, now):
            logger.warning("%s: %s is damaged: retention goes by the records themselves", log.partition, path)
        dropped = log.apply_retention(now)
        log.expire_producers(now, self._upkeep.number("producer.id.expiration.ms"))
        if dropped:
            logger.info("%s: retention dropped %d segments", log.partition, dropped)
        await asyncio.sleep(0)

    async def _compact(self) -> None:
        await self._each("compaction", self._compact_one)

    async def _compact_one(self, log: SegmentedLog) -> None:
        now = self._upkeep.now()
        if log.failure is None and log.is_cleanable(now):
            await self._storage.compact(log.partition, now)

    def _scrub_wait_ms(self) -> int:
        """A first round soon after the start, then one a day."""
        wait, self._next_scrub_ms = self._next_scrub_ms, _SCRUB_EVERY_MS
        return wait

    async def _scrub(self) -> None:
        """Read segments again, slowly, and say what has changed on the disk."""
        await self._each("scrubbing", self._scrub_one)

    async def _scrub_one(self, log: SegmentedLog) -> None:
        if self._scrub_rate() == 0 or log.failure is not None:
            return
        async for found in self._storage.scrub(log.partition, self._rest_after):
            logger.error(
                "%s is damaged: %s: %s; a fetch of it is answered CORRUPT_MESSAGE. "
                "Stop the broker and run `kohort data repair`",
                log.partition,
                found.directory,
                found.what,
            )

    async def _rest_after(self, size: int) -> None:
        await self._upkeep.pause(1_000 * size // max(self._scrub_rate(), 1))

    def _scrub_rate(self) -> int:
        return self._upkeep.number("kohort.scrub.bytes.per.second")

    async def _reopen(self) -> None:
        """A log whose disk failed answers errors; recover each from its files once they can be read again."""
        for log in self._storage.logs():
            if log.failure is not None:
                self._background.keep(f"reopening {log.partition}", partial(self._reopen_one, log.partition))

    async def _reopen_one(self, partition: TopicPartition) -> None:
        log = next((log for log in self._storage.logs() if log.partition == partition), None)
        if log is not None and log.failure is not None:
            logger.warning("%s failed (%s): recovering it from its files", log.partition, log.failure)
            await self._storage.reopen(partition)
