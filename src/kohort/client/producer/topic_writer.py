"""Write records to one topic and learn where they went: what the command line and small programs need."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import NamedTuple, Self, Unpack

from kohort.client.cluster import Cluster
from kohort.client.errors import UnknownTopicError
from kohort.client.producer.async_producer import AsyncProducer
from kohort.client.producer.batch import RecordMetadata
from kohort.client.producer.settings import SettingNames
from kohort.model.ids import Offset, Partition
from kohort.records.batch import Header


class Outgoing(NamedTuple):
    """A record to be written. Without a partition its key decides, without a timestamp the clock."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


class Written(NamedTuple):
    """Where a record went, and the timestamp it has there; the offset is -1 if it was not confirmed."""

    partition: Partition
    offset: Offset
    timestamp: int


class TopicWriter:
    """An ``AsyncProducer`` for one topic, over connections that exist; its settings are the producer's.

    ``async with TopicWriter(…) as writer`` keeps one producer for the block. Without a block every ``write``
    has a producer of its own.
    """

    def __init__(self, cluster: Cluster, topic: str, **settings: Unpack[SettingNames]) -> None:
        """Raises SettingError for settings that do not exist or fit."""
        settings.setdefault("max_block_ms", cluster.options.api_timeout_ms)
        self._producer = AsyncProducer.on(cluster, **settings)
        self._topic = topic
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self._producer.start()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        await self._producer.close()

    async def send(self, record: Outgoing) -> asyncio.Future[RecordMetadata]:
        """Put a record on its way, inside the block; see ``AsyncProducer.send`` for what it raises."""
        return await self._producer.send(
            self._topic,
            record.value,
            record.key,
            partition=record.partition,
            timestamp_ms=record.timestamp,
            headers=record.headers,
        )

    async def flush(self) -> None:
        """Return when all that was sent is acknowledged or refused."""
        await self._producer.flush()

    async def write(self, records: Sequence[Outgoing]) -> list[Written]:
        """Write them all, and say of each where it went, in the order given.

        Raises UnknownTopicError before anything is sent, if there is no such topic and the broker does not
        create it, or not all the partitions; BrokerError if a batch is refused: then others of the same
        call may have been written.
        """
        if not records:
            return []
        async with AsyncExitStack() as stack:
            if not self._is_open:
                await stack.enter_async_context(self)
            await self._check_partitions(records)
            sent = [await self.send(record) for record in records]
            await self.flush()
            results = await asyncio.gather(*sent, return_exceptions=True)
        written = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            written.append(Written(result.partition, result.offset, result.timestamp))
        return written

    async def _check_partitions(self, records: Sequence[Outgoing]) -> None:
        there = await self._producer.partitions_for(self._topic)
        for number in {record.partition for record in records} - {None, *there}:
            raise UnknownTopicError(
                self._topic, f"no partition {number}: it has the partitions 0 to {len(there) - 1}"
            )
