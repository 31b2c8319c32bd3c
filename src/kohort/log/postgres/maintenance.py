"""What rows need that no request asks for: retention, compaction, snapshots, removal (cluster 4).

Everything goes through one connection, in small transactions. Deleting below a durable start is right for
any node at any time; all else is fenced by session and epoch.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from kohort.cluster.lease import SessionId
from kohort.cluster.view import PartitionId
from kohort.log.background import Background, report
from kohort.log.log import UNLIMITED, Cleanup, Upkeep
from kohort.log.postgres import sql
from kohort.log.postgres.compaction import Compaction
from kohort.log.postgres.connections import Slot
from kohort.log.postgres.row_log import RowLog
from kohort.model.ids import Offset

if TYPE_CHECKING:
    from kohort.log.postgres.storage import RowStorage

logger = logging.getLogger("kohort.maintenance")

SNAPSHOT_BATCHES = 1_000
DELETE_ROWS = 500
COMPACT_ROWS = 50_000
COMPACT_BYTES = 4 << 20
_LOOK_EVERY_MS = 1_000
_SNAPSHOT_EVERY_MS = 60_000
_PAGE_ROWS = 1_000
_LOOK_AFTER_BATCHES = 1_000


class Maintenance:
    """The jobs of one storage, until ``run`` is cancelled."""

    def __init__(
        self, storage: "RowStorage", slot: Slot, session: Callable[[], SessionId], upkeep: Upkeep
    ) -> None:
        self._storage = storage
        self._slot = slot
        self._session = session
        self._upkeep = upkeep
        self._background = Background(upkeep.pause)

    async def run(self) -> None:
        number = self._upkeep.number

        def every(name: str, interval_ms: Callable[[], int], job: Callable[[], Awaitable[None]]) -> None:
            async def named() -> None:
                with self._slot.database.named():
                    await job()

            self._background.every(name, interval_ms, named)

        every("taking failed partitions again", lambda: _LOOK_EVERY_MS, self._storage.take_failed_again)
        every("retention", lambda: number("log.retention.check.interval.ms"), self.retain)
        every("compaction", lambda: max(1, number("log.cleaner.backoff.ms")), self.compact)
        every("snapshots of producers", lambda: _LOOK_EVERY_MS, self.save_producers)
        every("older snapshots of producers", lambda: _SNAPSHOT_EVERY_MS, self.save_all_producers)
        every("removing deleted topics", lambda: _SNAPSHOT_EVERY_MS, self.remove_deleted)
        try:
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        finally:
            await self._background.stop()

    async def _each(
        self, job: str, logs: Iterable[RowLog], visit: Callable[[RowLog], Awaitable[None]]
    ) -> None:
        for log in list(logs):
            if log.failure is None:
                try:
                    with self._slot.database.named():
                        await visit(log)
                except Exception as error:
                    report(f"{job} of {log.partition}", error, "; it is tried again at its next turn")

    # -- retention -------------------------------------------------------------------------------------

    async def retain(self) -> None:
        """Drop what is too old or too much, and what lies before the start."""
        await self._each("retention", self._storage.logs(), self._retain)

    async def _retain(self, log: RowLog) -> None:
        log.expire_producers(self._upkeep.now(), self._upkeep.number("producer.id.expiration.ms"))
        async with self._slot.use() as connection:
            row = await connection.fetchrow(sql.SIZE_AND_COUNT, log.partition_id, log.start_offset)
        log.size_bytes = row["size"]
        if Cleanup.DELETE in log.config.cleanup:
            start = await self._retained_from(log)
            if start > log.start_offset:
                logger.info("%s: retention moves its start to offset %d", log.partition, start)
                await log.delete_before(start)
        await self._delete_below_start(log.partition_id)
        async with self._slot.use() as connection:
            await connection.execute(sql.DELETE_EPOCHS_BELOW, log.partition_id, log.start_offset)

    async def _retained_from(self, log: RowLog) -> Offset:
        """Where the log is to begin: the first batch that is neither too much nor too old."""
        config = log.config
        surplus = 0 if config.retention_bytes == UNLIMITED else log.size_bytes - config.retention_bytes
        oldest = -1 if config.retention_ms == UNLIMITED else self._upkeep.now() - config.retention_ms
        start = log.start_offset
        while True:
            async with self._slot.use() as connection:
                rows = await connection.fetch(
                    sql.OLDEST_BATCHES, log.partition_id, start, log.high_watermark, _PAGE_ROWS
                )
            for row in rows:
                timestamp = row["top_timestamp"] if row["max_timestamp"] < 0 else row["max_timestamp"]
                if not (surplus >= row["size"] or 0 <= timestamp < oldest):
                    return start
                surplus -= row["size"]
                start = Offset(row["last_offset"] + 1)
            if len(rows) < _PAGE_ROWS:
                return start

    async def _delete_below_start(self, partition: PartitionId) -> None:
        while True:
            async with self._slot.use() as connection:
                done = await connection.execute(sql.DELETE_BELOW_START, partition, DELETE_ROWS)
            if _rows(done) < DELETE_ROWS:
                return

    # -- compaction ------------------------------------------------------------------------------------

    async def compact(self) -> None:
        """Compact what is dirty enough, one log after another."""
        compacted = (log for log in self._storage.logs() if Cleanup.COMPACT in log.config.cleanup)
        await self._each("compaction", compacted, self._compact_if_due)

    async def _compact_if_due(self, log: RowLog) -> None:
        if log.batches_since_look < _LOOK_AFTER_BATCHES:
            return
        log.batches_since_look = 0
        async with self._slot.use() as connection:
            dirty = await connection.fetchrow(sql.SIZE_AND_COUNT, log.partition_id, log.cleaned_to)
            whole = await connection.fetchrow(sql.SIZE_AND_COUNT, log.partition_id, log.start_offset)
        enough = max(COMPACT_BYTES, log.config.min_cleanable_dirty_ratio * whole["size"])
        if dirty["size"] > enough or dirty["count"] > COMPACT_ROWS:
            await self.compact_log(log)

    async def compact_log(self, log: RowLog) -> None:
        """One round: keep the newest record of each key in all batches but the newest."""
        await Compaction(log, self._slot, self._session(), self._upkeep.now()).run()

    # -- producers -------------------------------------------------------------------------------------

    async def save_producers(self) -> None:
        """Where many batches came since the last snapshot: a new leader reads the headers after it."""
        await self._save(
            log for log in self._storage.logs() if log.batches_since_snapshot >= SNAPSHOT_BATCHES
        )

    async def save_all_producers(self) -> None:
        await self._save(log for log in self._storage.logs() if log.batches_since_snapshot)

    async def _save(self, logs: Iterable[RowLog]) -> None:
        await self._each("a snapshot of the producers", logs, self._save_one)

    async def _save_one(self, log: RowLog) -> None:
        if log.end_offset != log.high_watermark:
            return  # what is in memory is ahead of what is stored: the next turn
        log.batches_since_snapshot, up_to = 0, log.high_watermark
        async with self._slot.use() as connection:
            await connection.execute(
                sql.SAVE_PRODUCERS,
                self._session(),
                log.partition_id,
                log.leader_epoch,
                up_to,
                log.producers.snapshot(),
            )

    # -- deleted topics --------------------------------------------------------------------------------

    async def remove_deleted(self) -> None:
        """Remove the rows of deleted topics, a few at a time; any node may, and several at once."""
        async with self._slot.use() as connection:
            topics = [row[0] for row in await connection.fetch(sql.DELETED_TOPICS)]
        for topic in topics:
            async with self._slot.use() as connection:
                partitions = [row[0] for row in await connection.fetch(sql.PARTITIONS_OF, topic)]
            for partition in partitions:
                await self._remove(partition)
            async with self._slot.use() as connection:
                await connection.execute(sql.FORGET_TOPIC, topic)

    async def _remove(self, partition: PartitionId) -> None:
        rows = DELETE_ROWS
        while rows == DELETE_ROWS:
            async with self._slot.use() as connection:
                rows = _rows(await connection.execute(sql.DELETE_SOME_BATCHES, partition, DELETE_ROWS))
        async with self._slot.use() as connection, connection.transaction():
            for statement in (
                sql.FORGET_PARTITION,
                sql.FORGET_PARTITION_EPOCHS,
                sql.FORGET_PARTITION_PRODUCERS,
                sql.FORGET_PARTITION_BATCHES,
            ):
                await connection.execute(statement, partition)


def _rows(done: str) -> int:
    """How many rows a command changed, by what the server says of it: ``DELETE 5``."""
    return int(done.rpartition(" ")[2])
