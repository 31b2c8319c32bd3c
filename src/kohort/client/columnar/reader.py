"""Ranges of offsets as Arrow batches: ``fetch`` on the caller's event loop, ``ColumnReader`` without one."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kohort.client.admin.clients import AsyncAdmin
from kohort.client.cluster import ClusterClient, ConnectionPurpose
from kohort.client.columnar.options import ColumnOptions, ReadTimeoutError, arrow_module
from kohort.client.errors import SecurityError, check
from kohort.client.fetching.requests import FetchLimits, Order, partitions_in, send_fetch, without_session
from kohort.client.loop_thread import LoopThread, OwnerProcess
from kohort.client.settings import DEFAULTS as CLIENT_DEFAULTS
from kohort.client.settings import ClientOptions
from kohort.client.subscription import NO_EPOCH
from kohort.model.errors import KohortError
from kohort.model.ids import NodeId, Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from pyarrow import lib as pa

    from kohort.client.columnar.portions import DecodeBatches, RangeReading

T = TypeVar("T")
DEFAULTS = ColumnOptions()


async def fetch(
    cluster: ClusterClient, partition: TopicPartition, start: int, end: int, options: ColumnOptions = DEFAULTS
) -> "AsyncIterator[pa.RecordBatch]":
    """The records with ``start <= offset < end``, in order; the next portion is fetched meanwhile.

    Markers of transactions are left out, and with read_committed the records of aborted ones. What passes by
    itself (a broker that is away, a leader that moved) is tried again within ``api_timeout_ms``. Raises
    BrokerError with OFFSET_OUT_OF_RANGE if the log does not have ``start``, ReadTimeoutError if ``end`` is
    not reached because the log ends before it, CorruptBatchError for what cannot be read, after the records
    before that.
    """
    reading = open_range(partition, start, end, options)

    def ask() -> asyncio.Task[PartitionData] | None:
        return None if reading.is_done else asyncio.create_task(next_portion(cluster, reading, options))

    asked = ask()
    try:
        while asked is not None:
            batches = reading.receive(await asked)
            asked = ask()
            for batch in batches:
                yield batch
    finally:
        if asked is not None:
            asked.cancel()


def open_range(
    partition: TopicPartition,
    start: int,
    end: int,
    options: ColumnOptions,
    decode: "DecodeBatches | None" = None,
) -> "RangeReading":
    """A range to be read; raises MissingExtraError without numpy or pyarrow."""
    arrow_module()
    from kohort.client.columnar.portions import RangeReading  # needs both

    return RangeReading(partition, start, end, options, decode)


async def next_portion(
    cluster: ClusterClient, reading: "RangeReading", options: ColumnOptions
) -> PartitionData:
    """An answer with records at the position of a range; tried again until the client's deadline."""
    deadline = cluster.deadline()

    async def attempt() -> PartitionData:
        return await _ask(cluster, reading, options)

    while True:
        answered = await cluster.retry(attempt, deadline)
        if answered.records:
            return answered
        if deadline.left_ms <= 0:
            raise ReadTimeoutError(reading.partition, reading.position, reading.end)


async def _ask(cluster: ClusterClient, reading: "RangeReading", options: ColumnOptions) -> PartitionData:
    """One Fetch, outside any session, to the leader."""
    topic, number = reading.partition
    metadata = await cluster.topics([topic])
    if not metadata.knows(reading.partition):
        metadata = await cluster.refresh([topic])  # a partition may be newer than what we know
    info = metadata.topic(topic)
    connection = await cluster.connection(metadata.leader(topic, number), ConnectionPurpose.FETCH)
    asked = without_session({reading.partition: Order(reading.position, NO_EPOCH, info.topic_id)})
    limits = FetchLimits(
        max_wait_ms=options.max_wait_ms,
        max_bytes=reading.max_bytes,
        partition_max_bytes=reading.max_bytes,
        read_committed=options.read_committed,
    )
    reply = await send_fetch(connection, asked, limits, cluster.options.request_timeout_ms)
    what = f"read {reading.partition} from offset {reading.position}"
    check(reply.error_code, what)
    answered = partitions_in(reply, lambda _: info.name).get(reading.partition)
    if answered is None:
        raise KohortError(f"cannot {what}: the broker did not answer it")
    check(answered.error_code, what)
    return answered


async def first_portions(
    cluster: ClusterClient, readings: "Sequence[RangeReading]", options: ColumnOptions
) -> dict[TopicPartition, PartitionData]:
    """Answers with records at the positions of several ranges, by one Fetch for each leader.

    One attempt: a range that got none, for whatever reason, is missing, and ``next_portion`` asks for it.
    """
    at = {reading.partition: reading for reading in readings}
    try:
        metadata = await cluster.topics({where.topic for where in at})
        led = metadata.by_leader([where for where in at if metadata.knows(where)])
    except SecurityError:
        raise
    except KohortError:
        return {}

    async def ask(
        leader: NodeId, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionData]:
        ids = {where.topic: metadata.topic(where.topic).topic_id for where in partitions}
        asked = {where: Order(at[where].position, NO_EPOCH, ids[where.topic]) for where in partitions}
        limits = FetchLimits(
            max_wait_ms=options.max_wait_ms,
            max_bytes=options.max_bytes,
            partition_max_bytes=max(at[where].max_bytes for where in partitions),
            read_committed=options.read_committed,
        )
        connection = await cluster.connection(leader, ConnectionPurpose.FETCH)
        reply = await send_fetch(
            connection, without_session(asked), limits, cluster.options.request_timeout_ms
        )
        names = {bytes(topic_id): topic for topic, topic_id in ids.items()}
        return partitions_in(reply, lambda topic_id: names.get(bytes(topic_id)))

    replies = await asyncio.gather(*(ask(*one) for one in led.items()), return_exceptions=True)
    found: dict[TopicPartition, PartitionData] = {}
    for reply in replies:
        if isinstance(reply, dict):
            found.update(reply)
        elif isinstance(reply, SecurityError) or not isinstance(reply, KohortError):
            raise reply
    return {
        where: answered
        for where, answered in found.items()
        if where in at and not answered.error_code and answered.records
    }


class _Link:
    """A cluster on a loop of its own, of one process."""

    def __init__(self, bootstrap: str, options: ClientOptions) -> None:
        self.process = OwnerProcess("column reader")
        # Not entered: that fails at once without a broker, and a fetch has time to wait for one.
        self.cluster = ClusterClient(bootstrap, options)
        self.loop = LoopThread("kohort columns")

    def close(self) -> None:
        self.loop.do(self.cluster.close)
        self.loop.stop()


# Connections of a parent process. They are kept, unused: to let go of them would close them under the parent.
_INHERITED: list[_Link] = []


class ColumnReader:
    """Reads ranges of partitions, one after the other or several at once, over connections it keeps.

    Connects with the first ``fetch``, which waits for a broker as long as for an answer. May stay open as
    long as the process lives, and be used in a process that was forked meanwhile, which opens connections
    of its own.
    """

    def __init__(self, bootstrap: str, options: ClientOptions = CLIENT_DEFAULTS) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._link: _Link | None = None
        self._lock = threading.Lock()
        self._portions: dict[tuple[TopicPartition, int], PartitionData] = {}  # fetched ahead, by position

    def __repr__(self) -> str:
        return f"<ColumnReader of {self._bootstrap}: {'idle' if self._link is None else 'connected'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next ``fetch`` would open others."""
        link, self._link = self._link, None
        if link is None:
            return
        if link.process.is_another:
            _INHERITED.append(link)
        else:
            link.close()

    def fetch(  # noqa: PLR0913  # a range has four names
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        options: ColumnOptions = DEFAULTS,
        decode: "DecodeBatches | None" = None,
    ) -> "Iterator[pa.RecordBatch]":
        """The records with ``start <= offset < end``, in order; what may go wrong is said at ``fetch``.

        The next portion is fetched while the caller works on this one. With ``decode`` the batches are what
        that makes of the records, instead of the columns of ``options``.
        """
        where = TopicPartition(TopicName(topic), Partition(partition))
        reading = open_range(where, start, end, options, decode)
        link = self._connected()

        def ask() -> Future[PartitionData] | None:
            if (ahead := self._portions.pop((where, reading.position), None)) is not None:
                answered: Future[PartitionData] = Future()
                answered.set_result(ahead)
                return answered
            return None if reading.is_done else link.loop.submit(next_portion(link.cluster, reading, options))

        asked = ask()
        try:
            while asked is not None:
                batches = reading.receive(asked.result())
                asked = ask()
                yield from batches
        finally:
            if asked is not None:
                asked.cancel()

    def fetch_ahead(
        self, ranges: Sequence[tuple[str, int, int, int]], options: ColumnOptions = DEFAULTS
    ) -> set[TopicPartition]:
        """Fetch the beginnings of several short ranges at once, for the calls of ``fetch`` that come next.

        The partitions it got something of; ``max_bytes`` is for all together. What was fetched ahead before
        and not used is dropped.
        """
        readings = [
            open_range(TopicPartition(TopicName(topic), Partition(partition)), start, end, options)
            for topic, partition, start, end in ranges
        ]
        link = self._connected()
        found = link.loop.submit(first_portions(link.cluster, readings, options)).result()
        at = {reading.partition: reading.position for reading in readings}
        self._portions = {(where, at[where]): portion for where, portion in found.items()}
        return set(found)

    def administer(self, work: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        """The result of ``work``, which gets an admin client on the connections of this reader."""
        link = self._connected()
        return link.loop.submit(work(AsyncAdmin(link.cluster))).result()

    def _connected(self) -> _Link:
        link = self._link
        if link is not None and link.process.is_another:
            _INHERITED.append(link)
            self._link = link = None
            self._lock = threading.Lock()  # a thread of the parent may have held it
        with self._lock:
            if self._link is None:
                self._link = _Link(self._bootstrap, self._options)
            return self._link
