"""The log of one partition over rows: numbers what is appended, and answers from memory where it can.

The leader is the only writer, so it gives offsets and checks sequences before the database has stored
anything. If an append is refused, all that was proposed after it is void: the log fails, and is opened again
at a higher epoch.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kohort.cluster.lease import SessionId
from kohort.cluster.view import PartitionId
from kohort.log.epochs import LeaderEpochs
from kohort.log.log import Append, Appended, EpochEnd, LogConfig, LogSpec, Slice, TimedOffset
from kohort.log.postgres import sql
from kohort.log.postgres.cache import CachedBatch, Tail, TailCache
from kohort.log.postgres.connections import FAULTS, Connection, text_of
from kohort.log.postgres.lanes import Proposal, Refused, Stored
from kohort.log.postgres.reading import PageRequest, Readers, first_not_older, read_page, slice_of, youngest
from kohort.log.producers import ProducerRoom, Producers
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset, WallTime
from kohort.records.batch import CorruptBatchError, patch_append_time, patch_offsets, read_header


class OpenedRows(NamedTuple):
    """What the tables say of a partition."""

    partition_id: PartitionId
    leader_epoch: LeaderEpoch
    start_offset: Offset
    end_offset: Offset
    cleaned_to: Offset
    top_timestamp: int
    producers_up_to: Offset
    epochs: LeaderEpochs
    producers: Producers


class LogOwner(NamedTuple):
    """What a log uses of its storage."""

    session: Callable[[], SessionId]
    cache: TailCache
    readers: Readers
    advanced: Callable[["RowLog"], None]
    failed: Callable[["RowLog"], None]
    producers: ProducerRoom


class AppendWaiter(NamedTuple):
    """Something that waits until everything before ``last_offset`` and it is stored."""

    last_offset: Offset
    done: Callable[[RefusedError | None], None]


class RowLog:
    """One partition, led by this node at one epoch. Implements ``kohort.log.log.Log``."""

    def __init__(self, spec: LogSpec, rows: OpenedRows, owner: LogOwner) -> None:
        self.partition = spec.partition
        self.topic_id = spec.topic_id
        self.config = spec.config
        self.partition_id = rows.partition_id
        self.leader_epoch = rows.leader_epoch
        self.start_offset = rows.start_offset
        self.end_offset = rows.end_offset  # of what is proposed
        self.high_watermark = rows.end_offset  # of what is stored
        self.cleaned_to = rows.cleaned_to
        self.size_bytes = 0  # of what is known here; maintenance counts the rest
        self.failure: str | None = None
        self.is_released = False
        self.has_lost_records = False  # the database has forgotten what it had confirmed
        self.producers = rows.producers
        self.producers.share(owner.producers)
        self.epochs = rows.epochs
        self.producers_up_to = rows.producers_up_to
        self.batches_since_snapshot = 0
        self.batches_since_look = 1_000_000  # by compaction; none yet
        self._top_timestamp = rows.top_timestamp
        self._owner = owner
        self._tail = Tail(rows.end_offset)
        self._waiters: deque[AppendWaiter] = deque()

    @property
    def last_stable_offset(self) -> Offset:
        return self.high_watermark  # there are no transactions yet

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        return self.epochs.at(offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        return self.epochs.end_of(epoch, self.high_watermark)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    # -- appending -------------------------------------------------------------------------------------

    def propose(self, append: Append) -> tuple[Appended, Proposal | None]:
        """Number a batch; what is to be stored, or ``None`` for a repetition. Raises ``RefusedError``."""
        self.check_usable()
        if append.leader_epoch != self.leader_epoch:
            raise RefusedError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.partition} is at leader epoch {self.leader_epoch}; this append is from"
                f" {append.leader_epoch}",
            )
        batch = append.batch if isinstance(append.batch, bytearray) else bytearray(append.batch)
        header = read_header(batch)
        if header.producer_id >= 0 and append.from_client:
            original = self.producers.check(header)
            if original is not None:
                base, last, time = original.base_offset, original.last_offset, original.timestamp
                return Appended(base, last, time, self.start_offset, True), None
        if len(batch) > self.config.segment_bytes:
            raise RefusedError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(batch)} bytes are more than segment.bytes of {self.partition}",
            )
        base = self.end_offset
        last = Offset(base + header.last_offset_delta)
        patch_offsets(batch, base, self.leader_epoch)
        timestamp, append_time = header.max_timestamp, -1
        if self.config.log_append_time:
            timestamp = append_time = append.now
            patch_append_time(batch, append.now)
        self.end_offset = Offset(last + 1)
        self._top_timestamp = max(self._top_timestamp, timestamp)
        if header.producer_id >= 0:
            self.producers.update(header, base, timestamp)
        proposal = Proposal(
            self.partition_id,
            self.leader_epoch,
            base,
            last,
            timestamp,
            self._top_timestamp,
            batch,
            lambda outcome: self._settle(CachedBatch(base, last, batch), outcome),
        )
        return Appended(base, last, append_time, self.start_offset, False), proposal

    def wait(self, last_offset: Offset, done: Callable[[RefusedError | None], None]) -> None:
        """Have ``done`` called when ``last_offset`` is stored, or with what was refused."""
        self._waiters.append(AppendWaiter(last_offset, done))

    def _settle(self, batch: CachedBatch, outcome: Stored | Refused) -> None:
        if isinstance(outcome, Refused):
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if outcome.is_fenced else ErrorCode.KAFKA_STORAGE_ERROR
            self.fail(code, f"{self.partition}: {outcome.reason}")
            return
        self.high_watermark = Offset(batch.last_offset + 1)
        self.size_bytes += len(batch.records)
        self.batches_since_snapshot += 1
        self.batches_since_look += 1
        if not self.is_released:
            self._owner.cache.add(self._tail, batch)
        # Waiters are in the order of their offsets, but for repetitions of what is stored.
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if waiter.last_offset < self.high_watermark:
                waiter.done(None)
            else:
                self._waiters.append(waiter)
        self._owner.advanced(self)

    def fail(self, code: ErrorCode, reason: str) -> None:
        """Refuse everything: what is stored is not known any more, or is not ours."""
        first = self.failure is None
        self.failure = self.failure or reason
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            waiter.done(RefusedError(code, reason))
        if first:
            self._owner.failed(self)
            self._owner.advanced(self)

    def release(self, code: ErrorCode, reason: str) -> None:
        """This node does not lead it any more, or it is deleted."""
        self.is_released = True
        self.fail(code, reason)
        self._owner.cache.drop(self._tail)

    def check_usable(self) -> None:
        if self.failure is not None:
            raise RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.failure)

    # -- reading ---------------------------------------------------------------------------------------

    def read(
        self, offset: Offset, max_bytes: int, *, limit: Offset, at_least_one: bool
    ) -> Slice | Awaitable[Slice]:
        self.check_usable()
        if offset < self.start_offset:
            raise self._out_of_range(offset)
        if offset > self.high_watermark:
            return self._beyond(offset)
        limit = min(limit, self.high_watermark)
        if offset >= limit:
            return Slice([], 0, offset)
        cached = self._tail.read(offset, max_bytes, limit, at_least_one)
        if cached is not None:
            return cached
        return self._read_rows(PageRequest(self.partition_id, offset, max_bytes, limit, at_least_one))

    async def _read_rows(self, wanted: PageRequest) -> Slice:
        try:
            async with self._owner.readers.use() as connection:
                page = await read_page(connection, wanted)
        except FAULTS as error:
            raise self._unreadable(error) from error
        self.check_usable()
        return slice_of(page, wanted.offset)

    async def _beyond(self, offset: Offset) -> Slice:
        """OFFSET_OUT_OF_RANGE makes consumers lose their place: the database must confirm it."""
        if offset > self.end_offset:
            try:
                async with self._owner.readers.use() as connection:
                    row = await connection.fetchrow(sql.FIND_END, self.partition_id)
            except FAULTS as error:
                raise self._unreadable(error) from error
            self.check_usable()
            is_ours = row is not None and row["leader"] == self._owner.session()
            if (
                is_ours
                and row["leader_epoch"] == self.leader_epoch
                and offset > max(row["end_offset"], self.end_offset)
            ):
                raise self._out_of_range(offset)
            raise RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition} may be led elsewhere")
        return Slice([], 0, offset)  # on its way to the database

    def _out_of_range(self, offset: Offset) -> RefusedError:
        return RefusedError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.partition} has {self.start_offset} to {self.high_watermark}, not {offset}",
        )

    def _unreadable(self, error: BaseException) -> RefusedError:
        text = f"{self.partition} could not be read: {text_of(error)}"
        return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def readable_bytes(self, offset: Offset, limit: Offset) -> int:
        limit = min(limit, self.high_watermark)
        if offset >= limit:
            return 0
        return max(self._tail.bytes_from(offset, limit), 1)

    async def find_by_time(self, timestamp: int, limit: Offset) -> TimedOffset | None:
        return await self._search(
            lambda connection: first_not_older(
                connection, self.partition_id, timestamp, self.start_offset, limit
            )
        )

    async def max_timestamp(self, limit: Offset) -> TimedOffset | None:
        return await self._search(
            lambda connection: youngest(connection, self.partition_id, self.start_offset, limit)
        )

    async def _search(
        self, search: Callable[[Connection], Awaitable[TimedOffset | None]]
    ) -> TimedOffset | None:
        self.check_usable()
        try:
            async with self._owner.readers.use() as connection:
                found = await search(connection)
        except FAULTS as error:
            raise self._unreadable(error) from error
        except CorruptBatchError as error:
            raise RefusedError(ErrorCode.CORRUPT_MESSAGE, f"{self.partition} is damaged: {error}") from error
        self.check_usable()
        return found

    # -- dropping --------------------------------------------------------------------------------------

    async def delete_before(self, offset: Offset) -> Offset:
        self.check_usable()
        if offset > self.high_watermark:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition} is safe up to {self.high_watermark} only"
            )
        if offset <= self.start_offset:
            return self.start_offset
        try:
            async with self._owner.readers.use() as connection:
                moved = await connection.fetchval(
                    sql.MOVE_START, self._owner.session(), self.partition_id, self.leader_epoch, offset
                )
                row = await connection.fetchrow(sql.FIND_END, self.partition_id)
        except FAULTS as error:
            raise self._unreadable(error) from error
        is_ours = row is not None and row["leader"] == self._owner.session()
        if moved is None and not (is_ours and row["start_offset"] >= offset):
            self.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition} is led by another session")
            self.check_usable()
        self.start_offset = max(self.start_offset, row["start_offset"])
        self.epochs.delete_before(self.start_offset)
        return self.start_offset

    def expire_producers(self, now: WallTime, after_ms: int) -> None:
        self.producers.expire(now, after_ms)
