"""``AsyncProducer``: records in, futures of where they went out. The sync producer runs on it too."""

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, Unpack

from kohort.client.cluster import ClusterClient, Deadline
from kohort.client.errors import BufferFullError, ProducerClosedError, RecordTooLargeError, UnknownTopicError
from kohort.client.metadata import Metadata, TopicInfo
from kohort.client.producer.accumulator import Added
from kohort.client.producer.batch import Block, Delivery, Receipt, RecordMetadata
from kohort.client.producer.records import (
    Headers,
    Sticky,
    TopicLayout,
    check_target,
    check_timestamp,
    header_list,
    in_bytes,
    partition_for_key,
    record_size,
)
from kohort.client.producer.sender import Sender
from kohort.client.producer.settings import ProducerSettings, SettingNames
from kohort.model.ids import TopicName
from kohort.records.batch import Header

Submission = tuple[str, Any, Any, int | None, int | None, Headers]
"""The arguments of ``send``: topic, value, key, partition, timestamp_ms, headers."""

_Measured = tuple[bytes | None, bytes | None, Sequence[Header], int]
"""Key, value and headers in bytes, and the most they take in a batch."""

_Engine = tuple[ClusterClient, Sender, asyncio.Task[None]]


class AsyncProducer:
    """Sends records to Kohort or Apache Kafka: ``async with AsyncProducer(bootstrap_servers=…) as producer``.

    Settings are those of :class:`ProducerSettings`; one that does not exist is refused. Leaving the block
    sends what is left. It belongs to one event loop; any number of tasks there may send at once.
    """

    def __init__(self, **settings: Unpack[SettingNames]) -> None:
        self.settings = ProducerSettings.from_kwargs(**settings)
        self._given: ClusterClient | None = None
        self._stack = AsyncExitStack()
        self._engine: _Engine | None = None
        self._surely_fits = self.settings.max_buffered_bytes - self.settings.max_request_size
        self._sticky = Sticky(self.settings.batch_size, random.choice)
        self._layouts: dict[str, TopicLayout] = {}  # by topic, as of this metadata:
        self._metadata: Metadata | None = None
        self._turn = asyncio.Lock()  # those who wait for room do so in order
        self._waiting = 0  # how many they are
        self._roomy = asyncio.Event()
        self._flushes: dict[asyncio.Future[None], int] = {}
        self._owes_turn = False  # the loop is due a turn, so that full batches leave

    @classmethod
    def on(cls, cluster: ClusterClient, **settings: Unpack[SettingNames]) -> Self:
        """A producer that uses connections its caller opened, and closes after it."""
        producer = cls(**settings)
        producer._given = cluster
        return producer

    def __repr__(self) -> str:
        state = (
            "closed" if self._engine is None else f"{self._engine[1].accumulator.buffered:,} bytes to send"
        )
        return f"<{type(self).__name__} {self.settings.client_id!r} of {self.settings.bootstrap}: {state}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect. Raises NoBrokerError at once if no broker answers; later losses are retried."""
        if self._engine is not None:
            return
        cluster = self._given
        if cluster is None:
            options = self.settings.client_options
            cluster = await self._stack.enter_async_context(ClusterClient(self.settings.bootstrap, options))
        sender = Sender(cluster, self.settings, self._progressed)
        task = asyncio.get_running_loop().create_task(sender.run(), name="kohort producer")
        self._engine = (cluster, sender, task)

    async def send(  # noqa: PLR0913 (the signature users of other clients know)
        self,
        topic: str,
        value: Any = None,  # noqa: ANN401 (whatever value_serializer takes)
        key: Any = None,  # noqa: ANN401 (whatever key_serializer takes)
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Put a record on its way; the future that comes back says where it went, once it is there.

        So ``await send(…)`` waits only for the topic to be known and for room in the buffer, at most
        ``max_block_ms``, and ``await (await send(…))`` for the record to be acknowledged. Raises
        UnknownTopicError, RecordTooLargeError, BufferFullError or what a serializer raises; then, or if it is
        cancelled, nothing was sent. The future raises DeliveryTimeoutError, or BrokerError if it is refused.
        """
        delivered: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        await self.submit((topic, value, key, partition, timestamp_ms, headers), delivered)
        return delivered

    async def submit(self, record: Submission, delivered: Delivery) -> None:
        """As ``send``, for callers who bring their own future: it is set on this loop's thread."""
        if self._owes_turn:  # here, and not when it came up: a call that is cancelled has sent nothing
            self._owes_turn = False
            await asyncio.sleep(0)
        added = self.submit_at_once(record, delivered)
        if added is None:
            added = await self._submit_in_time(record, delivered)
        if added is Added.FILLED:
            self._owes_turn = True

    def submit_at_once(self, record: Submission, delivered: Delivery) -> Added | None:
        """As ``submit``, if there is nothing to wait for; None, and nothing is done, if there may be.

        After ``Added.FILLED`` the loop should get a turn, so that batches leave.
        """
        engine = self._engine
        if engine is None or engine[2].done() or self._waiting:
            return None
        if engine[1].accumulator.buffered > self._surely_fits:
            return None
        if engine[0].metadata is not self._metadata:
            self._layouts.clear()
            self._metadata = engine[0].metadata
        topic, partition = record[0], record[3]
        layout = self._layouts.get(topic) or self._find(topic)
        if layout is None or (partition is not None and partition not in layout.partitions):
            return None
        return self._enter(layout, record, self._measure(record), delivered)

    async def _submit_in_time(self, record: Submission, delivered: Delivery) -> Added:
        """Look the topic up and wait for room, as far as that is needed."""
        cluster, sender, _ = self._running()
        topic, partition = record[0], record[3]
        check_target(topic, partition)
        info = cluster.metadata.topics.get(TopicName(topic))
        if info is None or (partition is not None and info.partition(partition) is None):
            info = await self._look_up(topic, partition)
        measured = self._measure(record)
        size = measured[3]
        buffered = sender.accumulator.buffered
        if buffered and (buffered + size > self.settings.max_buffered_bytes or self._turn.locked()):
            await self._wait_for_room(size)
        return self._enter(TopicLayout(info), record, measured, delivered)

    def _measure(self, record: Submission) -> _Measured:
        topic, value, key, _, _, headers = record
        settings = self.settings
        if type(key) is not bytes or settings.key_serializer is not None:
            key = in_bytes("key", key, settings.key_serializer)
        if type(value) is not bytes or settings.value_serializer is not None:
            value = in_bytes("value", value, settings.value_serializer)
        pairs = header_list(headers) if headers else ()
        size = record_size(key, value, pairs)
        if size > settings.max_request_size:
            raise RecordTooLargeError(topic, size, settings.max_request_size)
        return key, value, pairs, size

    def _enter(
        self, layout: TopicLayout, record: Submission, measured: _Measured, delivered: Delivery
    ) -> Added:
        """Put a record into the buffer."""
        _, sender, _ = self._engine or self._running()
        key, value, pairs, size = measured
        _, _, _, partition, stamp, _ = record
        if partition is None:
            partition = self._choose_partition(layout, key, size)
        stamp = time.time_ns() // 1_000_000 if stamp is None else check_timestamp(stamp)
        fields = (stamp, key, value, pairs)
        added = sender.accumulator.add(layout.partitions[partition], fields, size, delivered)
        if added is not Added.JOINED:
            sender.wake()
        return added

    async def put(self, blocks: Iterable[Block], receipt: Receipt) -> None:
        """Put encoded batches on their way, those of a partition in their order; ``receipt`` hears of each.

        For callers that encode in columns. They ask ``layout`` for the partitions first. Waits for room in
        the buffer only; raises BufferFullError after ``max_block_ms``, when those before it are on their way.
        """
        for block in blocks:
            _, sender, _ = self._running()
            if self._turn.locked() or not self._fits(block.size):
                await self._wait_for_room(block.size)
            sender.accumulator.put(block, receipt)
            sender.wake()

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,  # noqa: ANN401 (whatever value_serializer takes)
        key: Any = None,  # noqa: ANN401 (whatever key_serializer takes)
        **where: Any,  # noqa: ANN401 (as `send`)
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged: where it went."""
        return await (await self.send(topic, value, key, **where))

    async def flush(self) -> None:
        """Send all that waits now without lingering, and return when each of it is delivered or refused."""
        _, sender, _ = self._running()
        up_to = sender.accumulator.last_order
        if sender.accumulator.is_settled(up_to):
            return
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes[flushed] = up_to
        sender.accumulator.in_a_hurry = True
        sender.wake()
        try:
            await flushed
        finally:
            self._flushes.pop(flushed, None)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close the connections. What is not delivered after ``timeout_ms`` fails."""
        if self._engine is None:
            return
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
                await self.flush()
        except (TimeoutError, ProducerClosedError):
            pass  # the rest fails below
        finally:
            await self._stop()

    async def _stop(self) -> None:
        if self._engine is None:
            return  # closed twice at once
        _, sender, task = self._engine
        task.cancel()
        ending = [task, *sender.cancel()]
        gone = ProducerClosedError(
            "the producer was closed before the record was delivered", hint="give close() more time"
        )
        for batch in sender.accumulator.clear(in_flight=True):
            batch.fail(gone)
        self._progressed()
        self._engine = None
        try:  # nothing waits for this call any more: from here on it may be cancelled
            await asyncio.gather(*ending, return_exceptions=True)
        finally:
            await self._stack.aclose()

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions; the broker may create it, if it is set up to."""
        cluster, _, _ = self._running()
        info = cluster.metadata.topics.get(TopicName(topic)) or await self._look_up(topic, None)
        return [one.partition for one in info.partitions]

    def knows(self, topic: str) -> bool:
        """Whether records for a topic can be placed without asking for it. From any thread."""
        return self._engine is not None and topic in self._engine[0].metadata.topics

    async def layout(self, topic: str) -> tuple[int, list[int]]:
        """How many partitions a topic has, and which of them have a leader (all, if none has)."""
        cluster, _, _ = self._running()
        info = cluster.metadata.topics.get(TopicName(topic)) or await self._look_up(topic, None)
        return len(info.partitions), list(TopicLayout(info).led)

    # Inside

    def _running(self) -> _Engine:
        if self._engine is None:
            raise ProducerClosedError(
                "the producer is not running",
                hint="use it inside `async with`, or between start() and close()",
            )
        task = self._engine[2]
        if task.done():
            if task.cancelled():
                raise ProducerClosedError(
                    "the event loop the producer was started on has ended", hint="make one on each loop"
                )
            bug = task.exception()
            raise ProducerClosedError(
                f"the producer broke down: {bug!r}", hint="start a new producer, and report this as a bug"
            ) from bug
        return self._engine

    async def _look_up(self, topic: str, partition: int | None) -> TopicInfo:
        cluster, sender, _ = self._running()

        async def find() -> TopicInfo:
            metadata = await cluster.refresh([topic], create=True)
            try:
                return metadata.topic(topic)
            except UnknownTopicError as error:
                error.retriable = True  # Kafka answers first and creates the topic then
                raise

        info = await cluster.retry(find, Deadline(self.settings.max_block_ms))
        if partition is not None and info.partition(partition) is None:
            raise UnknownTopicError(
                topic, f"no partition {partition}: it has the partitions 0 to {len(info.partitions) - 1}"
            )
        sender.topics.add(topic)
        return info

    def _find(self, topic: str) -> TopicLayout | None:
        """The layout of a topic that is known already."""
        info = self._metadata.topics.get(TopicName(topic)) if self._metadata is not None else None
        if info is None:
            return None
        layout = self._layouts[topic] = TopicLayout(info)
        return layout

    def _choose_partition(self, layout: TopicLayout, key: bytes | None, size: int) -> int:
        topic, count = layout.info.name, len(layout.partitions)
        if self.settings.partitioner is not None:
            chosen = self.settings.partitioner(topic, key, count)
            if chosen not in layout.partitions:
                raise UnknownTopicError(
                    topic, f"the partitioner chose {chosen!r} of the partitions 0 to {count - 1}"
                )
            return chosen
        if key is not None:
            return partition_for_key(key, count)
        return self._sticky.place(topic, layout.led, size)

    def _fits(self, size: int) -> bool:
        _, sender, _ = self._running()
        buffered = sender.accumulator.buffered
        return buffered == 0 or buffered + size <= self.settings.max_buffered_bytes

    async def _wait_for_room(self, size: int) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(self.settings.max_block_ms / 1_000), self._turn:
                while not self._fits(size):
                    _, sender, _ = self._running()
                    self._roomy.clear()
                    sender.accumulator.in_a_hurry = True
                    sender.wake()
                    await self._roomy.wait()
        except TimeoutError:
            raise BufferFullError(self.settings.max_block_ms, self.settings.max_buffered_bytes) from None
        finally:
            self._waiting -= 1

    def _progressed(self) -> None:
        """Called by the sender when batches are done with: wake those who waited for that."""
        if self._engine is None:
            return
        sender = self._engine[1]
        for flushed, up_to in list(self._flushes.items()):
            if sender.accumulator.is_settled(up_to):
                del self._flushes[flushed]
                if not flushed.done():
                    flushed.set_result(None)
        self._roomy.set()
        sender.accumulator.in_a_hurry = bool(self._flushes) or self._turn.locked()
