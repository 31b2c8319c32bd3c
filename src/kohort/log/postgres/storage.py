"""The logs that a node leads, over the tables of its cluster. Implements ``kohort.log.log.Storage``."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from kohort.cluster.lease import SessionId
from kohort.cluster.view import PartitionId
from kohort.log.background import report
from kohort.log.epochs import LeaderEpochs
from kohort.log.log import (
    AdvanceListener,
    Append,
    Appended,
    FaultListener,
    Log,
    LogSpec,
    ReopenListener,
    Repair,
    Upkeep,
)
from kohort.log.postgres import sql
from kohort.log.postgres.cache import DEFAULT_BUDGET, TailCache
from kohort.log.postgres.connections import FAULTS, Connection, Database, Purpose, Slot, text_of
from kohort.log.postgres.lanes import Lane, LaneOwner, Proposal
from kohort.log.postgres.maintenance import Maintenance
from kohort.log.postgres.reading import READ_CONNECTIONS, Readers
from kohort.log.postgres.resolve import LedPartition
from kohort.log.postgres.row_log import LogOwner, OpenedRows, RowLog
from kohort.log.producers import CorruptSnapshotError, ProducerRoom, Producers
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset
from kohort.model.topics import INTERNAL_TOPICS, Topic, TopicPartition
from kohort.records.batch import read_header

logger = logging.getLogger("kohort.log")

Results = list[Appended | RefusedError]

TakeAgain = Callable[[Sequence[PartitionId], Sequence[LeaderEpoch], bool], Awaitable[object]]
"""Lead partitions at epochs above these; the view shows them, and who follows it opens the logs again.

The last argument says whether the database has forgotten records of them.
"""


class _Waiting:
    """One call of ``append`` that waits for some of its batches."""

    def __init__(self, future: "asyncio.Future[Results]", results: Results) -> None:
        self._future = future
        self._results = results
        self.missing = 0

    def done(self, index: int, refusal: RefusedError | None) -> None:
        if refusal is not None:
            self._results[index] = refusal
        self.missing -= 1
        if not self.missing and not self._future.done():
            self._future.set_result(self._results)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOfCluster:
    """What the storage needs to know of its node."""

    session: Callable[[], SessionId]
    is_in_touch: Callable[[], bool]
    take_again: TakeAgain
    append_timeout_s: float = 5.0  # on a link that says nothing
    cache_bytes: int = DEFAULT_BUDGET
    read_connections: int = READ_CONNECTIONS
    close: Callable[[], Awaitable[None]] | None = None  # what else the node has open


class RowStorage:
    """The logs of a node. What it leads comes and goes with ``open`` and ``release``."""

    def __init__(self, database: Database, node: NodeOfCluster) -> None:
        self._node = node
        self._logs: dict[TopicPartition, RowLog] = {}
        self._listeners: list[AdvanceListener] = []
        self._readers = Readers(database, node.read_connections)
        self._slot = Slot(database, Purpose.MAINTENANCE, timeout_s=60.0)
        self._failed: set[RowLog] = set()
        self._warn: FaultListener = partial(logger.warning, "%s")
        owner = LaneOwner(
            node.session,
            lambda: database.connect(Purpose.LANE),
            node.is_in_touch,
            self._led,
            self._lost,
            lambda reason: self._warn(reason),
            node.append_timeout_s,
        )
        self._lanes = {is_internal: Lane(owner) for is_internal in (True, False)}
        cache = TailCache(node.cache_bytes)
        self._owner = LogOwner(
            node.session, cache, self._readers, self._notify, self._failed.add, ProducerRoom()
        )

    async def connect(self) -> None:
        """Open all connections: a limit is met at the start of a node. Raises ``FAULTS``."""
        for lane in self._lanes.values():
            await lane.connect()
        await self._readers.connect()
        await self._slot.open()

    # -- logs ------------------------------------------------------------------------------------------

    def logs(self) -> Iterable[RowLog]:
        return self._logs.values()

    async def open(self, specs: Sequence[LogSpec]) -> list[Log | RefusedError]:
        if not specs:
            return []
        try:
            async with self._slot.use() as connection:
                found = await self._load(connection, specs)
        except FAULTS as error:
            reason = f"the logs cannot be read: {text_of(error)}"
            return [
                RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, f"{each.partition}: {reason}") for each in specs
            ]
        return [self._opened(spec, found.get(number)) for number, spec in enumerate(specs, 1)]

    def _opened(self, spec: LogSpec, rows: OpenedRows | None) -> Log | RefusedError:
        if rows is None or rows.leader_epoch < spec.leader_epoch:
            return RefusedError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{spec.partition} is led by another session"
            )
        known = self._logs.get(spec.partition)
        if known is not None:
            if known.failure is None and known.leader_epoch == rows.leader_epoch:
                return known
            self._close(known, ErrorCode.NOT_LEADER_OR_FOLLOWER, "is opened again at another epoch")
        log = self._logs[spec.partition] = RowLog(spec, rows, self._owner)
        return log

    async def _load(self, connection: Connection, specs: Sequence[LogSpec]) -> dict[int, OpenedRows]:
        """What the tables say of partitions, by the number of their spec; three statements for all."""
        session = self._node.session()
        ids = [UUID(bytes=spec.topic_id) for spec in specs]
        numbers = [spec.partition.partition for spec in specs]
        rows = await connection.fetch(sql.OPEN, session, ids, numbers)
        partitions = [row["partition_id"] for row in rows]
        await connection.execute(sql.NOTE_EPOCHS, partitions, session)
        epochs: dict[PartitionId, list[tuple[LeaderEpoch, Offset]]] = {each: [] for each in partitions}
        for partition_id, epoch, start in await connection.fetch(sql.EPOCHS, partitions):
            epochs[partition_id].append((epoch, start))
        producers = {row["partition_id"]: _producers(row) for row in rows}
        with_producers = [
            (row["partition_id"], producers[row["partition_id"]][1])
            for row in rows
            if specs[row["number"] - 1].partition.topic not in INTERNAL_TOPICS
        ]
        headers = await connection.fetch(
            sql.HEADERS_SINCE, [each[0] for each in with_producers], [each[1] for each in with_producers]
        )
        for partition_id, header in headers:
            producers[partition_id][0].replay(read_header(header))
        return {
            row["number"]: OpenedRows(
                row["partition_id"],
                row["leader_epoch"],
                row["start_offset"],
                max(row["start_offset"], -1 if row["last_offset"] is None else row["last_offset"] + 1),
                row["cleaned_to"],
                -1 if row["top_timestamp"] is None else row["top_timestamp"],
                producers[row["partition_id"]][1],
                _history(epochs[row["partition_id"]]),
                producers[row["partition_id"]][0],
            )
            for row in rows
        }

    async def release(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            log = self._logs.pop(partition, None)
            if log is not None:
                self._close(log, ErrorCode.NOT_LEADER_OR_FOLLOWER, "is led by another session")

    async def destroy(self, topic: Topic) -> None:
        """Rows are removed later, by any node: see ``Maintenance``."""
        for partition in [each for each in self._logs if each.topic == topic.name]:
            if self._logs[partition].topic_id == topic.topic_id:
                log = self._logs.pop(partition)
                self._close(log, ErrorCode.KAFKA_STORAGE_ERROR, "is deleted")

    def _close(self, log: RowLog, code: ErrorCode, reason: str) -> None:
        text = f"{log.partition} {reason}"
        log.release(code, text)
        self._failed.discard(log)
        self._lane_of(log).drop(log.partition_id, text)

    # -- appending -------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append]) -> "asyncio.Future[Results]":
        future: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        results: Results = []
        waiting = _Waiting(future, results)
        proposals: dict[Lane, list[Proposal]] = {}
        for append in appends:
            index = len(results)
            try:
                log = self._log(append.partition)
                done, proposal = log.propose(append)
            except RefusedError as refusal:
                results.append(refusal)
                continue
            results.append(done)
            if proposal is not None:
                proposals.setdefault(self._lane_of(log), []).append(proposal)
            if log.high_watermark <= done.last_offset:
                waiting.missing += 1
                log.wait(done.last_offset, partial(waiting.done, index))
        for lane, proposed in proposals.items():
            lane.submit(proposed)
        if not waiting.missing:
            future.set_result(results)
        return future

    def _log(self, partition: TopicPartition) -> RowLog:
        log = self._logs.get(partition)
        if log is None:
            raise RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} is not led by this node")
        return log

    def _lane_of(self, log: RowLog) -> Lane:
        return self._lanes[log.partition.topic in INTERNAL_TOPICS]

    def on_advance(self, listener: AdvanceListener) -> None:
        self._listeners.append(listener)

    def on_reopen(self, listener: ReopenListener) -> None:
        """A log that failed is led at a higher epoch then: who follows the view opens it."""

    def on_fault(self, listener: FaultListener) -> None:
        self._warn = listener

    def _notify(self, log: RowLog) -> None:
        for listener in self._listeners:
            try:
                listener(log.partition)
            except Exception as error:  # the log and all others who wait for it must not suffer
                report(f"a fetch that waits for {log.partition}", error)

    def _led(self) -> Iterable[LedPartition]:
        return [
            LedPartition(each.partition_id, each.leader_epoch, each.high_watermark)
            for each in self._logs.values()
        ]

    def _lost(self, partitions: list[PartitionId]) -> None:
        for log in list(self._logs.values()):
            if log.partition_id in partitions:
                logger.error(
                    "%s: the database has forgotten records that it had confirmed; it is led at a new epoch"
                    " now, and clients may find that the last records are gone",
                    log.partition,
                )
                log.has_lost_records = True
                log.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{log.partition}: the database lost records")

    # -- in the background -----------------------------------------------------------------------------

    async def take_failed_again(self) -> None:
        """Lead what has failed at a higher epoch, if it is still ours: nothing of before is stored then."""
        failed = [log for log in self._failed if not log.is_released]
        if failed:
            await self._node.take_again(
                [log.partition_id for log in failed],
                [log.leader_epoch for log in failed],
                any(log.has_lost_records for log in failed),
            )
            self._failed.difference_update(failed)

    async def maintain(self, upkeep: Upkeep) -> None:
        await Maintenance(self, self._slot, self._node.session, upkeep).run()

    def reports(self) -> Iterable[Repair]:
        return ()

    async def close(self, *, started: bool = True) -> None:
        for lane in self._lanes.values():
            await lane.close()
        for log in list(self._logs.values()):
            self._close(log, ErrorCode.NOT_LEADER_OR_FOLLOWER, "is closed: the node stops")
        self._logs.clear()
        await self._readers.close()
        await self._slot.close()
        if self._node.close is not None:
            await self._node.close()


def _producers(row: "dict[str, object]") -> tuple[Producers, Offset]:
    """The producers of the last snapshot, and from where on headers tell more."""
    start, state = row["start_offset"], row["state"]
    assert isinstance(start, int)
    if not isinstance(state, bytes):
        return Producers(), Offset(start)
    up_to = row["up_to"]
    assert isinstance(up_to, int)
    try:
        return Producers.from_snapshot(state), Offset(up_to)
    except CorruptSnapshotError:
        return Producers(), Offset(start)  # all of it is in the headers


def _history(entries: list[tuple[LeaderEpoch, Offset]]) -> LeaderEpochs:
    """The epochs that wrote something; an epoch that wrote nothing has the same start as the next."""
    epochs = LeaderEpochs()
    for epoch, start in entries:
        epochs.begin(epoch, start)
    return epochs
