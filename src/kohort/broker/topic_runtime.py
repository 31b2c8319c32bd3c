"""The partitions of one internal topic: taken when they are led here, loaded in the background, released.

The leader of a partition coordinates what lives in it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

from kohort.broker.appends import Appends
from kohort.broker.clock import Clock
from kohort.broker.partition_runtime import PartitionLog, PartitionRuntime, Status
from kohort.broker.topics import ServedTopic
from kohort.coordination.shard import CoordinatorShard
from kohort.log.catalog import ClusterCatalog
from kohort.log.log import Log, Slice, Storage
from kohort.model.errors import ErrorCode, KohortError, RefusedError
from kohort.model.ids import Instant, Offset
from kohort.primitives.strings import partition_for
from kohort.records.batch import BatchHeader, CorruptBatchError, check_crc
from kohort.records.header import batches

logger = logging.getLogger("kohort.coordinator")

S = TypeVar("S", bound=CoordinatorShard[Any, Any, Any])

_FIRST_RETRY_MS = 100  # after a partition could not be loaded; each further wait is twice as long
_LAST_RETRY_MS = 6_400
_READ_BYTES = 5 * 1024 * 1024  # Kafka's offsets.load.buffer.size
_SLICE_S = 0.005  # how long a load may keep the loop from everybody else


class TopicRuntime(Generic[S]):
    """The runtimes of a topic's partitions that are led here, by partition."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        make_shard: Callable[[Instant, int, int], S],
        journal: Callable[[Iterable[Any]], None],
        perform: Callable[[PartitionRuntime[S], object], None] | None = None,
    ) -> None:
        self.cluster: ClusterCatalog | None = None  # hears which partitions are served
        self.partitions: dict[int, PartitionRuntime[S]] = {}
        self._count = 0  # of all partitions of the topic, here and elsewhere; does not grow while it is open
        self._appends = Appends(storage)
        self._clock = clock
        self._make_shard = make_shard
        self._journal = journal
        self._perform = perform  # what an outcome's effects ask for
        self._loading: asyncio.Task[None] | None = None

    def follow(self, topic: ServedTopic) -> None:
        """Take what is led here now and begin to load it; release the rest. Requests are answered as ever."""
        if not self._count:
            self._count = topic.partitions
        for partition in [each for each in self.partitions if each not in topic.logs]:
            self.partitions.pop(partition).stop()
        taken = {
            partition: self._make(topic, partition)
            for partition in topic.logs
            if partition < self._count and partition not in self.partitions
        }
        self.partitions |= taken
        self._load(taken.values())

    async def close(self) -> None:
        """Answer everyone who waits, and forget everything: the topic is gone, or the node stops."""
        partitions, self.partitions, self._count = self.partitions, {}, 0
        for runtime in partitions.values():
            runtime.stop()
        loading, self._loading = self._loading, None
        if loading is not None:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)

    async def ready(self) -> None:
        """Wait until everything that is being loaded is loaded, or waits for its next attempt."""
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)

    def of(self, key: str) -> PartitionRuntime[S] | None:
        """The runtime of the partition that a key (a group id, say) lives in."""
        count = self._count
        return self.partitions.get(partition_for(key, count)) if count else None

    def _make(self, topic: ServedTopic, partition: int) -> PartitionRuntime[S]:
        limit = topic.max_message_bytes
        log = topic.logs[partition]

        def current() -> Log:
            nonlocal log
            log = topic.logs.get(partition, log)  # recovery may have replaced it, another node may lead it
            return log

        stored = PartitionLog(self._appends, current, limit)
        if self.cluster is not None:
            stored = stored._replace(may_answer=self.cluster.may_answer)

        def make_shard(now: Instant) -> S:
            return self._make_shard(now, limit, partition)

        runtime = PartitionRuntime(stored, make_shard, self._clock, self._journal, self._load_again)
        if self._perform is not None:
            runtime.perform = partial(self._perform, runtime)
        return runtime

    def _load(self, runtimes: Iterable[PartitionRuntime[S]]) -> None:
        """Partitions with nothing stored are active at once; the others are loaded one after another."""
        filled = []
        for runtime in runtimes:
            if runtime.has_nothing_to_load:
                self._activate(runtime)
            else:
                filled.append(runtime)
        if filled:
            self._loading = asyncio.get_running_loop().create_task(
                self._load_all(filled, self._loading), name="kohort load coordinators"
            )

    def _activate(self, runtime: PartitionRuntime[S]) -> None:
        runtime.activate()
        if self.cluster is not None:
            self.cluster.served([runtime.log.partition])

    async def _load_all(self, runtimes: list[PartitionRuntime[S]], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        for runtime in runtimes:
            if runtime.status is Status.LOADING:
                await self._load_one(runtime)

    async def _load_one(self, runtime: PartitionRuntime[S]) -> None:
        """Load a partition. Contents that are wrong stay so; a read that fails is tried again."""
        partition = runtime.log.partition
        try:
            await runtime.idle()
            await load(runtime.shard, runtime.log)
        except RefusedError as error:
            self._load_later(runtime, error)
            return
        except KohortError as error:
            logger.error("%s cannot be loaded, and is not served: %s", partition, error)
            runtime.fail()
            return
        except Exception as error:
            self._load_later(runtime, error)
            return
        try:
            turns = _LoopBreaks(time.monotonic())
            while runtime.status is Status.LOADING and runtime.load_more():
                await turns.give_way()
            if runtime.status is Status.LOADING:  # else it was released meanwhile
                self._activate(runtime)
        except KohortError as error:
            logger.error("%s cannot be loaded, and is not served: %s", partition, error)
            runtime.fail()
        except (OSError, MemoryError) as error:
            self._load_later(runtime, error)
        except Exception:  # it would fail again, and again
            logger.exception("%s: the coordinator cannot be built from its log", partition)
            runtime.fail()

    def _load_later(self, runtime: PartitionRuntime[S], error: Exception) -> None:
        if runtime.status is not Status.LOADING:
            return
        runtime.start_over()
        delay = _delay_ms(runtime.failures)
        partition = runtime.log.partition
        logger.error("%s cannot be loaded, the next attempt is in %d ms: %r", partition, delay, error)
        self._load_in(delay, runtime)

    def _load_again(self, runtime: PartitionRuntime[S]) -> None:
        """A shard was dropped: at once, but not again and again if no append succeeds in between."""
        if runtime.failures == 1:
            self._load_in(0, runtime)
        else:
            self._load_in(_delay_ms(runtime.failures - 1), runtime)

    def _load_in(self, delay_ms: int, runtime: PartitionRuntime[S]) -> None:
        def load_now() -> None:
            if runtime in self.partitions.values() and runtime.status is Status.LOADING:
                self._load([runtime])

        if delay_ms:
            self._clock.call_at(Instant(self._clock.now().instant + delay_ms), load_now)
        else:
            load_now()


def _delay_ms(failures: int) -> int:
    return min(_FIRST_RETRY_MS << min(failures - 1, 16), _LAST_RETRY_MS)


class _LoopBreaks:
    """Lets others have the loop when this has had it for long enough."""

    def __init__(self, started: float) -> None:
        self._until = started + _SLICE_S

    async def give_way(self) -> None:
        if time.monotonic() > self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + _SLICE_S


def _check(view: memoryview, position: int, header: BatchHeader, expected: Offset, log: Log) -> None:
    """Raise ``CorruptBatchError`` for damage: a wrong offset is worse for a group than none.

    The checksum of a batch does not cover its offset.
    """
    try:
        check_crc(view, position, header)
        if not expected <= header.last_offset < log.high_watermark:
            raise CorruptBatchError(f"offset {header.base_offset} to {header.last_offset} follows {expected}")
    except CorruptBatchError as error:
        raise CorruptBatchError(f"{error}; stop the broker and run `kohort data repair`") from error


async def load(shard: CoordinatorShard[Any, Any, Any], log: Log) -> None:
    """Replay a log from its start to its end, giving way to the loop; raises what the shard raises."""
    if log.failure is not None:
        # What a failed log holds is known when it has recovered.
        raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.partition} has failed: {log.failure}")
    started = time.monotonic()
    offset = log.start_offset
    turns = _LoopBreaks(started)
    while offset < log.high_watermark:
        found = log.read(offset, _READ_BYTES, limit=log.high_watermark, at_least_one=True)
        if not isinstance(found, Slice):
            found = await found
        if not found.size:
            break  # compaction left nothing up to the end
        for buffer in found.buffers:
            view = memoryview(buffer)
            for position, header in batches(view):
                _check(view, position, header, offset, log)
                offset = Offset(header.next_offset)
                shard.replay_batch(view[position : position + header.size], header)
                await turns.give_way()
        offset = found.next_offset
    for what, count in shard.skipped.items():
        logger.warning("%s: skipped %d records while loading: %s", log.partition, count, what)
    logger.info(
        "%s: loaded up to offset %d in %.0f ms", log.partition, offset, 1e3 * (time.monotonic() - started)
    )
