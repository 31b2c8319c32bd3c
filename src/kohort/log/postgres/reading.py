"""Reading what is older than the tail in memory: pages of batches, and records by their time (cluster 4)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import NamedTuple

from kohort.cluster.view import PartitionId
from kohort.log.log import Slice, TimedOffset
from kohort.log.postgres import sql
from kohort.log.postgres.cache import CachedBatch
from kohort.log.postgres.connections import Connection, Database, Purpose, Slot
from kohort.model.ids import LeaderEpoch, Offset
from kohort.records.batch import BatchHeader, Record, read_header, read_records

READ_CONNECTIONS = 2
MOST_BYTES = 5 << 20
MOST_ROWS = 20_000
_FIRST_ROWS = 500


class Readers:
    """The connections for reads: few, and used in turn."""

    def __init__(self, database: Database, connections: int = READ_CONNECTIONS) -> None:
        self._slots = [Slot(database, Purpose.READ) for _ in range(connections)]
        self._turns = count()

    async def connect(self) -> None:
        """Open all of them. Raises ``FAULTS``."""
        for slot in self._slots:
            await slot.open()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        async with self._slots[next(self._turns) % len(self._slots)].use() as connection:
            yield connection

    async def close(self) -> None:
        for slot in self._slots:
            await slot.close()


class PageRequest(NamedTuple):
    """What is wanted: whole batches below ``limit``, from the one that holds ``offset`` on."""

    partition: PartitionId
    offset: Offset
    max_bytes: int
    limit: Offset
    at_least_one: bool


async def read_page(connection: Connection, wanted: PageRequest) -> list[CachedBatch]:
    """The batches of a page. Sizes are looked at first: a page is never more than it may be."""
    partition, offset, most, limit, at_least_one = wanted
    most = min(most, MOST_BYTES)
    rows = await connection.fetch(sql.PAGE_SIZES, partition, offset, limit, _FIRST_ROWS)
    if len(rows) == _FIRST_ROWS and sum(row["size"] for row in rows) < most:
        rows = await connection.fetch(sql.PAGE_SIZES, partition, offset, limit, MOST_ROWS)
    size, end = 0, None
    for row in rows:
        size += row["size"]
        is_first = end is None and at_least_one
        if row["last_offset"] >= limit or (size > most and not is_first):
            break
        end = row["base_offset"]
    if end is None:
        return []
    page = await connection.fetch(sql.READ_PAGE, partition, rows[0]["base_offset"], end)
    return [CachedBatch(*row) for row in page]


def slice_of(batches: list[CachedBatch], offset: Offset) -> Slice:
    next_offset = Offset(batches[-1].last_offset + 1) if batches else offset
    return Slice(
        [bytes(each.records) for each in batches], sum(len(each.records) for each in batches), next_offset
    )


# -- by time -------------------------------------------------------------------------------------------


async def first_not_older(
    connection: Connection, partition: PartitionId, timestamp: int, start: Offset, limit: Offset
) -> TimedOffset | None:
    """The first record from ``start`` on, below ``limit``, that is not older than ``timestamp``."""
    begin = await _halve(connection, partition, timestamp, start, limit)
    while begin is not None:
        row = await connection.fetchrow(sql.FIRST_NOT_OLDER, partition, begin, limit, start, timestamp)
        if row is None:
            return None
        header, records = await _decoded(row["records"])
        found = next((each for each in records if each.timestamp >= timestamp and each.offset >= start), None)
        if found is not None:
            return _timed(found, header) if found.offset < limit else None
        begin = Offset(header.next_offset)  # the youngest record of the batch is deleted
    return None


async def _halve(
    connection: Connection, partition: PartitionId, timestamp: int, start: Offset, limit: Offset
) -> Offset | None:
    """The first batch whose running maximum is not older: no batch before it can have such a record."""
    newest = await connection.fetchrow(sql.TOP_BEFORE, partition, limit)
    if newest is None or newest["top_timestamp"] < timestamp:
        return None
    floor = await connection.fetchrow(sql.TOP_BEFORE, partition, start + 1)  # may begin before the start
    low, high = (start if floor is None else floor["base_offset"]), newest["base_offset"]
    while low < high:
        middle = (low + high) // 2
        row = await connection.fetchrow(sql.TOP_AT, partition, middle, limit)
        if row["top_timestamp"] >= timestamp:
            # If no batch begins between the middle and the highest candidate, the middle is as good.
            high = row["base_offset"] if row["base_offset"] < high else middle
        else:
            low = row["last_offset"] + 1
    return Offset(low)


async def youngest(
    connection: Connection, partition: PartitionId, start: Offset, limit: Offset
) -> TimedOffset | None:
    """The first of the youngest records from ``start`` on, below ``limit``."""
    best: TimedOffset | None = None
    for row in await connection.fetch(sql.YOUNGEST, partition, limit, start):
        header, records = await _decoded(row["records"])
        chosen = [each for each in records if start <= each.offset < limit]
        if chosen:
            record = max(chosen, key=lambda each: each.timestamp)
            if best is None or (record.timestamp, -record.offset) > (best.timestamp, -best.offset):
                best = _timed(record, header)
    return best


async def _decoded(batch: bytes) -> tuple[BatchHeader, list[Record]]:
    """Decoding may take long: a thread does it."""
    header = read_header(batch)
    return header, await asyncio.to_thread(read_records, batch, 0, header)


def _timed(record: Record, header: BatchHeader) -> TimedOffset:
    return TimedOffset(Offset(record.offset), record.timestamp, LeaderEpoch(header.partition_leader_epoch))
