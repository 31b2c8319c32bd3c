"""Compacting the batches of a partition, by its leader (cluster 4).

Keys are inside batches, so PostgreSQL cannot do it. A range of batches is read, what is outdated is left out,
small neighbours become one batch, and the range is swapped in one transaction that checks session and epoch.
The newest batch stays as it is: the end of the log hangs on it.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from kohort.cluster.lease import SessionId
from kohort.log.cleaner import Cleaning, clean_batch, note_keys
from kohort.log.postgres import sql
from kohort.log.postgres.connections import Slot
from kohort.log.postgres.row_log import RowLog
from kohort.model.ids import Offset, WallTime
from kohort.records.batch import (
    NO_PRODUCER_ID,
    BatchHeader,
    check_crc,
    read_header,
    read_records,
    rebuild_batch,
)

MOST_KEYS = 1_000_000
"""How many keys one round remembers; a round ends at the batch where they are reached."""

RANGE_BYTES = 16 << 20
MERGED_BYTES = 64 << 10
_RANGE_ROWS = 5_000
_MOST_OFFSETS = (1 << 31) - 1


class CompactRow(NamedTuple):
    """A batch with its columns."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    top_timestamp: int
    leader_epoch: int
    records: bytes


class Compaction:
    """One round over one log."""

    def __init__(self, log: RowLog, slot: Slot, session: SessionId, now: WallTime) -> None:
        self._log = log
        self._slot = slot
        self._session = session
        self._now = now

    async def run(self) -> None:
        log = self._log
        async with self._slot.use() as connection:
            newest_base = await connection.fetchval(sql.NEWEST_BASE, log.partition_id)
            start = await connection.fetchval(sql.FLOOR_BASE, log.partition_id, log.start_offset)
        if newest_base is None:
            return
        start = log.start_offset if start is None else start
        newest: dict[bytes, int] = {}
        end = await self._note_dirty(max(log.cleaned_to, start), newest_base, newest)
        active = log.producers.last_offsets()
        cleaning = Cleaning(newest, active, Offset(end), self._now, log.config.delete_retention_ms)
        async for rows in self._ranges(start, end):
            cleaned = await asyncio.to_thread(_cleaned, rows, cleaning)
            if not await self._swap(rows, cleaned):
                return
        log.cleaned_to = max(log.cleaned_to, Offset(end))
        async with self._slot.use() as connection:
            await connection.execute(sql.SET_CLEANED, log.partition_id, log.cleaned_to)

    async def _note_dirty(self, start: int, end: int, newest: dict[bytes, int]) -> int:
        """Learn the newest offset of each key in the dirty part; returns where the round ends."""
        lag = self._log.config.min_compaction_lag_ms
        async for rows in self._ranges(start, end):
            for row in rows:
                is_too_young = lag > 0 and self._now - row.max_timestamp < lag
                if is_too_young or len(newest) > MOST_KEYS:
                    return row.base_offset
                await asyncio.to_thread(note_keys, newest, row.records, read_header(row.records))
        return end

    async def _ranges(self, start: int, end: int) -> AsyncIterator[list[CompactRow]]:
        """The batches from ``start`` to ``end``, so many at a time as memory allows."""
        while start < end:
            async with self._slot.use() as connection:
                sizes = await connection.fetch(sql.SIZES_IN, self._log.partition_id, start, end, _RANGE_ROWS)
                if not sizes:
                    return
                total, last = 0, sizes[0]["base_offset"]
                for row in sizes:
                    total += row["size"]
                    if total > RANGE_BYTES and row is not sizes[0]:
                        break
                    last = row["base_offset"]
                first = sizes[0]["base_offset"]
                rows = await connection.fetch(sql.BATCHES_IN, self._log.partition_id, first, last)
            yield [CompactRow(*row) for row in rows]
            start = last + 1

    async def _swap(self, old: Sequence[CompactRow], new: Sequence[CompactRow]) -> bool:
        """Put ``new`` in the place of ``old``; no if the log is not ours any more, or begins elsewhere."""
        log = self._log
        if list(old) == list(new):
            return True
        async with self._slot.use() as connection, connection.transaction():
            start = await connection.fetchval(sql.LOCK_LED, self._session, log.partition_id, log.leader_epoch)
            if start is None or start > old[0].last_offset:
                return False
            await connection.execute(
                sql.DELETE_RANGE, log.partition_id, old[0].base_offset, old[-1].base_offset
            )
            columns = [list(column) for column in zip(*new, strict=True)] if new else [[] for _ in range(6)]
            await connection.execute(sql.INSERT_BATCHES, log.partition_id, *columns)
        return log.failure is None


def _cleaned(rows: Sequence[CompactRow], cleaning: Cleaning) -> list[CompactRow]:
    """The batches as they stay, small neighbours merged."""
    kept: list[CompactRow] = []
    for row in rows:
        header = read_header(row.records)
        check_crc(row.records, 0, header)  # a new checksum must not make damage look right
        records = clean_batch(row.records, header, cleaning)
        if records is None:
            continue
        row = row._replace(records=records, max_timestamp=read_header(records).max_timestamp)
        merged = _merged(kept[-1], row) if kept else None
        if merged is not None:
            kept[-1] = merged
        else:
            kept.append(row)
    return kept


def _merged(one: CompactRow, other: CompactRow) -> CompactRow | None:
    """Two neighbours as one batch, where no client can tell: nothing but keys, values and offsets differ."""
    first, second = read_header(one.records), read_header(other.records)
    is_plain = _is_plain(first) and _is_plain(second) and one.leader_epoch == other.leader_epoch
    is_small = len(one.records) + len(other.records) <= MERGED_BYTES
    delta = other.last_offset - one.base_offset
    if not is_plain or not is_small or first.attributes != second.attributes or delta > _MOST_OFFSETS:
        return None
    records = [*read_records(one.records), *read_records(other.records)]
    if not records:
        return None
    header = first._replace(last_offset_delta=delta)
    batch = rebuild_batch(header, records)
    return CompactRow(
        one.base_offset,
        other.last_offset,
        read_header(batch).max_timestamp,
        other.top_timestamp,
        one.leader_epoch,
        batch,
    )


def _is_plain(header: BatchHeader) -> bool:
    return (
        header.producer_id == NO_PRODUCER_ID
        and not header.is_control
        and not header.is_transactional
        and not header.is_log_append_time
        and header.delete_horizon is None
    )
