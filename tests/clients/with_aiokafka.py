"""aiokafka, driven from synchronous tests: its clients live on one event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TypeVar

from tests.clients.libraries import (
    POLL_RECORDS,
    POLL_SECONDS,
    Got,
    Member,
    Membership,
    NotCommittedError,
    Production,
    ReadPartition,
    Sample,
    Untyped,
    Watcher,
    quietly,
)
from tests.clients.waiting import PATIENCE_SECONDS, Deadline

aiokafka = quietly("aiokafka")
errors = quietly("aiokafka.errors")
_ASSIGNORS = {
    "range": quietly("aiokafka.coordinator.assignors.range").RangePartitionAssignor,
    "roundrobin": quietly("aiokafka.coordinator.assignors.roundrobin").RoundRobinPartitionAssignor,
    "sticky": quietly("aiokafka.coordinator.assignors.sticky.sticky_assignor").StickyPartitionAssignor,
}
_T = TypeVar("_T")


class LoopThread:
    """An event loop that always runs, so that members send heartbeats whoever is polled."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[None, None, _T]) -> "Future[_T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[None, None, _T]) -> _T:
        return self.begin(work).result(2 * PATIENCE_SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def got(record: Untyped) -> Got:
    place = ReadPartition(record.topic, record.partition)
    return Got(place, record.offset, record.key, record.value, tuple(record.headers), record.timestamp)


def places(partitions: Iterable[Untyped]) -> list[ReadPartition]:
    return [ReadPartition(one.topic, one.partition) for one in partitions]


class Aiokafka:
    """The library ``aiokafka``."""

    name = "aiokafka"

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    def produce(self, bootstrap: str, topic: str, samples: Sequence[Sample], how: Production) -> list[int]:
        return self._loop.run(self._produce(bootstrap, topic, samples, how))

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Got]:
        return self._loop.run(self._read(bootstrap, topic, partitions, count))

    def join(self, bootstrap: str, membership: Membership, watcher: Watcher) -> Member:
        return self._loop.run(AiokafkaMember.start(self._loop, bootstrap, membership, watcher))

    async def _produce(
        self, bootstrap: str, topic: str, samples: Sequence[Sample], how: Production
    ) -> list[int]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if how.codec == "none" else how.codec,
            acks=how.acks if how.acks == "all" else int(how.acks),
            enable_idempotence=how.idempotent,
            linger_ms=5,
            max_batch_size=65_536,
            retry_backoff_ms=20,
        )
        async with producer:
            futures = [
                await producer.send(
                    topic,
                    value=sample.value,
                    key=sample.key,
                    partition=sample.partition,
                    headers=list(sample.headers),
                    timestamp_ms=sample.timestamp,
                )
                for sample in samples
            ]
            await producer.flush()
            answers = [await future for future in futures]
        # With acks=0 aiokafka has nothing to report.
        return [-1 if answer is None else answer.offset for answer in answers]

    async def _read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Got]:
        records: list[Got] = []
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", retry_backoff_ms=20
        )
        consumer.assign([aiokafka.TopicPartition(topic, number) for number in range(partitions)])
        async with consumer:
            deadline = Deadline(f"{count} records of {topic}")
            while len(records) < count:
                deadline.check(f"got {len(records)}")
                for some in (await consumer.getmany(timeout_ms=100)).values():
                    records += map(got, some)
        return records


class AiokafkaMember:
    """An ``AIOKafkaConsumer`` in a group. It joins and rejoins in the background, polled or not."""

    def __init__(self, loop: LoopThread, name: str, consumer: Untyped, watcher: Watcher) -> None:
        self.name = name
        self._loop = loop
        self._consumer = consumer
        self._watcher = watcher
        self._held: list[ReadPartition] = []
        self._closing = False
        self._polling: Future[int] | None = None

    @classmethod
    async def start(
        cls, loop: LoopThread, bootstrap: str, membership: Membership, watcher: Watcher
    ) -> "AiokafkaMember":
        # aiokafka 0.14 joins once for every assignor it has, each time with one more of them; two such
        # members rebalance each other for ever.
        (assignor,) = membership.assignors
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            client_id=membership.name,
            group_id=membership.group,
            group_instance_id=membership.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(_ASSIGNORS[assignor],),
            session_timeout_ms=membership.session_ms,
            heartbeat_interval_ms=membership.heartbeat_ms,
            rebalance_timeout_ms=membership.rebalance_ms,
            max_poll_interval_ms=membership.rebalance_ms,
            fetch_max_wait_ms=50,
            retry_backoff_ms=20,
            # aiokafka 0.14 asks for no metadata when a ListOffsets is refused with NOT_LEADER_OR_FOLLOWER.
            metadata_max_age_ms=1_000,
        )
        member = cls(loop, membership.name, consumer, watcher)
        await consumer.start()
        # Subscribed before the start, ``start`` would wait for an assignment, and the test with it.
        consumer.subscribe(list(membership.topics), listener=member._listener())
        return member

    def poll(self) -> int:
        # During a rebalance ``getmany`` waits for its end, whatever its timeout: go on, and look again later.
        polling = self._polling or self._loop.begin(self._poll())
        self._polling = None if wait([polling], POLL_SECONDS).done else polling
        # aiokafka may cancel a ``getmany`` that waits while its coordinator goes away: it brought nothing.
        return 0 if self._polling or polling.cancelled() else polling.result()

    def commit(self, offsets: Mapping[ReadPartition, int]) -> None:
        wanted = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        try:
            self._loop.run(self._consumer.commit(wanted))
        except (errors.KafkaConnectionError, errors.RequestTimedOutError) as error:
            raise NotCommittedError(error, maybe=True) from error
        except errors.KafkaError as error:
            raise NotCommittedError(error, maybe=False) from error

    def committed(self, place: ReadPartition) -> int | None:
        offset: int | None = self._loop.run(self._consumer.committed(aiokafka.TopicPartition(*place)))
        return offset

    def pause(self, places: Iterable[ReadPartition]) -> None:
        async def pause() -> None:
            self._consumer.pause(*[aiokafka.TopicPartition(*place) for place in places])

        self._loop.run(pause())

    def resume(self, places: Iterable[ReadPartition]) -> None:
        async def resume() -> None:
            self._consumer.resume(*[aiokafka.TopicPartition(*place) for place in places])

        self._loop.run(resume())

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        self._loop.run(self._close())

    async def _poll(self) -> int:
        batches = await self._consumer.getmany(
            timeout_ms=round(POLL_SECONDS * 1_000), max_records=POLL_RECORDS
        )
        # No await from here on: the records are counted before a rebalance can run on this loop.
        records = [got(record) for some in batches.values() for record in some]
        self._watcher.consumed(self.name, records)
        return len(records)

    async def _close(self) -> None:
        # aiokafka does not tell its listener that it gives up its partitions when it stops; but it may
        # first finish a rebalance, and tell what it was given to leave at once.
        self._closing = True
        self._watcher.revoked(self.name, self._held)
        self._held = []
        try:
            await self._consumer.stop()
        except asyncio.CancelledError:
            # Not ours: aiokafka 0.14 waits for a fetch that it has cancelled itself, and leaves the rest out.
            with suppress(asyncio.CancelledError):
                await self._consumer._fetcher.close()
            await self._consumer._client.close()

    def _listener(self) -> Untyped:
        def assigned(_listener: object, partitions: Iterable[Untyped]) -> None:
            if not self._closing:
                self._held = places(partitions)
                self._watcher.assigned(self.name, self._held)

        def revoked(_listener: object, _partitions: Iterable[Untyped]) -> None:
            self._watcher.revoked(self.name, self._held)
            self._held = []

        methods = {"on_partitions_assigned": assigned, "on_partitions_revoked": revoked}
        return type("Listener", (aiokafka.ConsumerRebalanceListener,), methods)()
