"""Appends on their way to the database: a connection with a queue, one transaction at a time (cluster 3.2).

What gathers while a transaction runs goes into the next one. A partition always uses the same lane, so its
appends are stored in the order of their offsets.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from kohort.cluster.lease import SessionId
from kohort.cluster.view import PartitionId
from kohort.log.background import Background
from kohort.log.postgres import sql
from kohort.log.postgres.connections import FAULTS, Connection, text_of
from kohort.log.postgres.resolve import (
    Claim,
    LedPartition,
    StoredPartition,
    TransactionFault,
    Verdict,
    fault_of,
    judge,
    lost_data,
)
from kohort.model.ids import LeaderEpoch, Offset

logger = logging.getLogger("kohort.append")

MOST_BYTES = 4 << 20
MOST_BATCHES = 500
LARGE_BATCH = 64 << 10  # goes alone: the driver copies what it puts into an array
_FIRST_BACKOFF_S = 0.01
_LONGEST_BACKOFF_S = 0.5


class Stored(NamedTuple):
    """The batch is committed."""

    start_offset: Offset  # of the partition


class Refused(NamedTuple):
    """The batch is not stored, or that is not known. Nothing more may be proposed in this epoch."""

    is_fenced: bool  # another session leads, or this one at another epoch
    reason: str


@dataclass(slots=True, eq=False)
class Proposal:
    """One batch at the offset that its leader gave it. ``listener`` hears once what became of it."""

    partition_id: PartitionId
    leader_epoch: LeaderEpoch
    base_offset: Offset
    last_offset: Offset
    max_timestamp: int
    top_timestamp: int
    records: bytes | bytearray = field(repr=False)
    listener: Callable[[Stored | Refused], None]
    is_settled: bool = False

    def settle(self, outcome: Stored | Refused) -> None:
        """The first outcome counts."""
        if not self.is_settled:
            self.is_settled = True
            self.listener(outcome)


class LaneOwner(NamedTuple):
    """What a lane knows of the node it works for."""

    session: Callable[[], SessionId]
    connect: Callable[[], Awaitable[Connection]]
    may_wait: Callable[[], bool]  # whether PostgreSQL was in touch lately: clients can be answered in time
    led: Callable[[], Iterable[LedPartition]]
    lost: Callable[[list[PartitionId]], None]  # the database has forgotten something of these
    warn: Callable[[str], None]  # the operator
    timeout_s: float = 5.0  # of a connection or a statement on a link that says nothing


class Lane:
    """A connection and its queue. Belongs to one event loop."""

    def __init__(self, owner: LaneOwner) -> None:
        self._owner = owner
        self._queue: deque[Proposal] = deque()
        self._arrived = asyncio.Event()
        self._connection: Connection | None = None
        self._background = Background(_pause)
        self._background.keep("appending to PostgreSQL", self._work)

    async def connect(self) -> None:
        """Open the connection before the first batch comes. Raises ``FAULTS``."""
        self._connection = await self._owner.connect()

    def submit(self, proposals: Iterable[Proposal]) -> None:
        self._queue.extend(proposals)
        self._arrived.set()

    def drop(self, partition_id: PartitionId, reason: str, *, is_fenced: bool = True) -> None:
        """Refuse what waits for a partition. What is under way is settled by its own outcome."""
        dropped = [each for each in self._queue if each.partition_id == partition_id]
        if dropped:
            self._queue = deque(each for each in self._queue if each.partition_id != partition_id)
        for each in dropped:
            each.settle(Refused(is_fenced, reason))

    async def close(self) -> None:
        await self._background.stop()
        for each in self._queue:
            each.settle(Refused(False, "the node stops"))
        self._queue.clear()
        if self._connection is not None:
            self._connection.terminate()

    # -- one transaction after another -----------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            while self._queue:
                proposals = self._take()
                try:
                    await self._store(proposals)
                except BaseException as error:
                    is_stop = isinstance(error, asyncio.CancelledError)
                    reason = "the node stops" if is_stop else f"an append failed: {error!r}"
                    self._refuse([each for each in proposals if not each.is_settled], Refused(False, reason))
                    raise
            self._arrived.clear()
            await self._arrived.wait()

    def _take(self) -> list[Proposal]:
        """What goes into the next transaction: the oldest, up to a size."""
        taken = [self._queue.popleft()]
        size = len(taken[0].records)
        while self._queue and size < LARGE_BATCH and len(taken) < MOST_BATCHES:
            following = len(self._queue[0].records)
            if following >= LARGE_BATCH:
                break
            taken.append(self._queue.popleft())
            size += following
        return taken

    async def _store(self, proposals: list[Proposal]) -> None:
        backoff_s = _FIRST_BACKOFF_S
        if not self._owner.may_wait():  # nothing is sent: a link that is silent would hold clients up
            self._refuse(proposals, Refused(False, "this node has lost touch with its cluster"))
            return
        while proposals:
            try:
                stored = await self._send(proposals)
            except FAULTS as error:
                fault = fault_of(error)
                if fault is TransactionFault.REFUSED:
                    self._owner.warn(f"PostgreSQL refuses an append: {text_of(error)}")
                if fault is TransactionFault.REFUSED or not self._owner.may_wait():
                    self._refuse(proposals, Refused(False, f"PostgreSQL: {text_of(error)}"))
                    return
                if fault is TransactionFault.UNKNOWN:
                    proposals = await self._resolve(proposals, error)
                elif fault is TransactionFault.OVERLOADED:
                    self._owner.warn(f"an append is tried again: {text_of(error)}")
                    await asyncio.sleep(backoff_s)
                    backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)
                continue
            self._settle(proposals, stored)
            return

    async def _send(self, proposals: Sequence[Proposal]) -> dict[PartitionId, Offset]:
        """The partitions in which the batches are stored, with their start offsets."""
        connection = await self._connected()
        session = self._owner.session()
        try:
            async with asyncio.timeout(self._owner.timeout_s):
                if len(proposals) == 1:
                    row = await connection.fetch(sql.APPEND_ONE, session, *_one(proposals[0]))
                else:
                    row = await connection.fetch(sql.APPEND_MANY, session, *_many(proposals))
        except FAULTS as error:
            if fault_of(error) is TransactionFault.UNKNOWN:
                connection.terminate()
            raise
        return dict(row)

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            async with asyncio.timeout(self._owner.timeout_s):
                self._connection = await self._owner.connect()
        return self._connection

    def _settle(self, proposals: Sequence[Proposal], stored: dict[PartitionId, Offset]) -> None:
        refused = [each for each in proposals if each.partition_id not in stored]
        for each in proposals:
            if each.partition_id in stored:
                each.settle(Stored(stored[each.partition_id]))
        if refused:
            self._refuse(
                refused, Refused(True, "another session leads it, or its end is not where we left it")
            )

    def _refuse(self, proposals: Sequence[Proposal], refusal: Refused) -> None:
        for each in proposals:
            each.settle(refusal)
        for partition_id in {each.partition_id for each in proposals}:
            self.drop(partition_id, refusal.reason, is_fenced=refusal.is_fenced)

    # -- outcomes that are not known -------------------------------------------------------------------

    async def _resolve(self, proposals: list[Proposal], error: BaseException) -> list[Proposal]:
        """Look what became of a transaction; returns what is to be sent again, unchanged."""
        logger.warning("the outcome of an append is looked up: %s", text_of(error))
        found = await self._look(proposals)
        if found is None:
            reason = "the outcome of an append is not known: PostgreSQL cannot be reached"
            self._refuse(proposals, Refused(False, reason))
            return []
        again: list[Proposal] = []
        for claim, claimed in _claims(proposals):
            match judge(self._owner.session(), claim, found.get(claim.partition_id)):
                case Verdict.STORED:
                    self._settle(claimed, {claim.partition_id: claimed[0].base_offset})
                case Verdict.AGAIN:
                    again += claimed
                case Verdict.LOST:
                    self._settle(claimed, {})
        behind = lost_data(self._owner.led(), found)
        if behind:
            self._owner.lost(behind)
        return again

    async def _look(self, proposals: Sequence[Proposal]) -> dict[PartitionId, StoredPartition] | None:
        """The partitions of these and all that we lead, or ``None`` when waiting has no use any more."""
        partitions = sorted({each.partition_id for each in proposals})
        backoff_s = _FIRST_BACKOFF_S
        while self._owner.may_wait():
            try:
                connection = await self._connected()
                async with asyncio.timeout(self._owner.timeout_s):
                    rows = await connection.fetch(sql.FIND_ENDS, self._owner.session(), partitions)
                return {row["partition_id"]: StoredPartition(*row) for row in rows}
            except FAULTS as error:
                logger.warning("PostgreSQL cannot be reached: %s", text_of(error))
                if self._connection is not None:
                    self._connection.terminate()
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)
        return None


async def _pause(milliseconds: int) -> None:
    await asyncio.sleep(milliseconds / 1_000)


def _claims(proposals: Iterable[Proposal]) -> Iterable[tuple[Claim, list[Proposal]]]:
    """What was to be stored in each partition: all of it or nothing."""
    by_partition = sorted(proposals, key=lambda each: (each.partition_id, each.base_offset))
    for partition_id, group in groupby(by_partition, key=lambda each: each.partition_id):
        claimed = list(group)
        first, last = claimed[0], claimed[-1]
        yield (
            Claim(partition_id, first.leader_epoch, first.base_offset, Offset(last.last_offset + 1)),
            claimed,
        )


def _one(each: Proposal) -> tuple[object, ...]:
    return (
        each.partition_id,
        each.leader_epoch,
        each.base_offset,
        each.last_offset,
        each.max_timestamp,
        each.top_timestamp,
        each.records,
    )


def _many(proposals: Sequence[Proposal]) -> list[list[object]]:
    """The arrays of ``APPEND_MANY``: three for the partitions, seven for the batches."""
    partitions = [
        (claim.partition_id, claim.leader_epoch, claim.base_offset) for claim, _ in _claims(proposals)
    ]
    batches = [
        (
            each.partition_id,
            each.base_offset,
            each.last_offset,
            each.max_timestamp,
            each.top_timestamp,
            each.leader_epoch,
            each.records,
        )
        for each in proposals
    ]
    return [list(column) for column in (*zip(*partitions, strict=True), *zip(*batches, strict=True))]
