"""Fetch a range of offsets into Arrow batches, on the caller's event loop."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from kohort.client.cluster import Cluster
from kohort.client.columnar.errors import ReadTimeoutError
from kohort.client.columnar.options import ColumnOptions, arrow_module
from kohort.client.errors import check
from kohort.client.pool import Purpose
from kohort.model.errors import KohortError
from kohort.model.ids import NO_TOPIC_ID
from kohort.model.topics import TopicPartition
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

if TYPE_CHECKING:
    from pyarrow import lib as pa

    from kohort.client.columnar.ranges import OffsetRange

_BY_NAME = 12  # Fetch 13 names topics by id only
DEFAULTS = ColumnOptions()


async def fetch(
    cluster: Cluster, partition: TopicPartition, start: int, end: int, options: ColumnOptions = DEFAULTS
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


def open_range(partition: TopicPartition, start: int, end: int, options: ColumnOptions) -> "OffsetRange":
    """A range to be read; raises MissingExtraError without numpy or pyarrow."""
    arrow_module()
    from kohort.client.columnar.ranges import OffsetRange  # needs both

    return OffsetRange(partition, start, end, options)


async def next_portion(cluster: Cluster, reading: "OffsetRange", options: ColumnOptions) -> PartitionData:
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


async def _ask(cluster: Cluster, reading: "OffsetRange", options: ColumnOptions) -> PartitionData:
    """One Fetch, outside any session, to whoever leads."""
    topic, number = reading.partition
    metadata = await cluster.topics([topic])
    if not metadata.knows(reading.partition):
        metadata = await cluster.refresh([topic])  # a partition may be newer than what we know
    info = metadata.topic(topic)
    connection = await cluster.connection(metadata.leader(topic, number), Purpose.FETCH)
    wanted = FetchPartition(
        partition=number, fetch_offset=reading.position, partition_max_bytes=reading.max_bytes
    )
    request = FetchRequest(
        max_wait_ms=options.max_wait_ms,
        min_bytes=1,
        max_bytes=reading.max_bytes,
        isolation_level=int(options.read_committed),
        topics=[FetchTopic(topic=topic, topic_id=info.topic_id, partitions=[wanted])],
    )
    reply = await connection.send(
        request,
        FetchResponse,
        highest=_BY_NAME if info.topic_id == NO_TOPIC_ID else None,
        timeout_ms=cluster.options.request_timeout_ms + options.max_wait_ms,
    )
    what = f"read {reading.partition} from offset {reading.position}"
    check(reply.error_code, what)
    for answered in (one for each in reply.responses for one in each.partitions):
        if answered.partition_index == number:
            check(answered.error_code, what)
            return answered
    raise KohortError(f"cannot {what}: the broker did not answer it")
