"""``Consumer``: the same consumer for programs without an event loop."""

import re
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from kohort.client.columnar.options import COLUMNS
from kohort.client.consumer.arguments import AnyOffset, as_millis
from kohort.client.consumer.async_consumer import CLOSE_TIMEOUT_MS, AsyncConsumer
from kohort.client.consumer.callbacks import CommitCallback
from kohort.client.consumer.engine import Records
from kohort.client.consumer.errors import ConcurrentUseError, ConsumerClosedError
from kohort.client.consumer.iteration import Remaining
from kohort.client.consumer.lookups import OffsetAndTimestamp
from kohort.client.consumer.settings import ConsumerOptions
from kohort.client.fetching.records import ConsumerRecord
from kohort.client.loop_thread import LoopThread, OwnerProcess
from kohort.client.membership.effects import RebalanceListener
from kohort.client.membership.state import MemberGeneration
from kohort.client.partitions import AnyPartition, PartitionKey, as_partitions
from kohort.client.subscription import OffsetAndMetadata, SubscriptionPattern
from kohort.model.topics import TopicPartition

if TYPE_CHECKING:
    from pyarrow import lib as pa

T = TypeVar("T")
_ITERATION_MS = 60_000


class Consumer:
    """Reads topics, alone or as a member of a group; heartbeats go on while the application works.

    ``with Consumer("orders", bootstrap_servers="…", group_id="billing") as consumer`` connects, and leaves
    the group after; ``for record in consumer`` or ``consumer.poll(1_000)`` read. Listeners and callbacks run
    in the thread that polls. For one thread at a time; only ``wakeup`` may come from another.
    """

    def __init__(self, *topics: str, **settings: Unpack[ConsumerOptions]) -> None:
        """As ``AsyncConsumer``."""
        self._consumer = AsyncConsumer(*topics, **settings)
        self._remaining = self._consumer.remaining
        self._handing: Records = {}  # polled on the loop, not yet returned in the user's thread
        self._loop: LoopThread | None = None
        self._is_closed = False
        self._is_woken = False
        self._owner: int | None = None
        self._lock = threading.Lock()
        self._owner_process = OwnerProcess("consumer")

    def __repr__(self) -> str:
        return repr(self._consumer).replace("AsyncConsumer", "Consumer", 1)

    # --- beginning and end --------------------------------------------------------------------

    def start(self) -> None:
        """Connect; NoBrokerError if no broker answers. ``with`` does this."""
        if self._is_closed:
            raise ConsumerClosedError
        if self._loop is not None:
            return
        self._owner_process = OwnerProcess("consumer")
        self._loop = LoopThread("kohort consumer")
        self._consumer.invoke_by(self._loop.invoke)
        try:
            self._run(self._consumer.start)
        except BaseException:
            self._loop.stop()
            self._loop = None
            raise

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit (with auto-commit), give partitions back and leave; closing twice does nothing.

        Not while another thread polls (wake it up first), nor from a callback: ConcurrentUseError.
        In a process that was forked it does nothing.
        """
        if self._owner_process.is_another:
            return
        if self._owner is not None:
            raise ConcurrentUseError("thread" if self._owner != threading.get_ident() else "callback")
        with self._alone():
            self._is_closed = True
            if self._loop is None:
                return
            try:
                self._run(lambda: self._consumer.close(timeout_ms))
            finally:
                self._loop.stop()
                self._loop = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._remaining.step_back()
        self.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Belong to this thread for the time of a call; calls of its own callbacks may nest."""
        here = threading.get_ident()
        if self._loop is not None:
            self._owner_process.check()
        with self._lock:
            if self._owner not in (None, here):
                raise ConcurrentUseError("thread")
            outer, self._owner = self._owner, here
        try:
            yield
        finally:
            self._owner = outer

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        with self._alone():
            if self._loop is None:
                raise self._not_working()
            if self._handing:  # an interrupt came between: they count as not handed out
                self._remaining.refill(self._handing.values())
                self._handing = {}
            return self._loop.run(work())

    def _not_working(self) -> ConsumerClosedError:
        return ConsumerClosedError(f"the consumer is {'closed' if self._is_closed else 'not started'}")

    def _do(self, call: Callable[[], T]) -> T:
        """A call that takes no time, on the loop; before there is one, here."""
        if self._loop is None and not self._is_closed:
            with self._alone():
                return call()

        async def work() -> T:
            return call()

        return self._run(work)

    # --- what to read -------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or those whose whole name matches, as a member of the group."""
        self._do(lambda: self._consumer.subscribe(topics, pattern=pattern, listener=listener))

    def unsubscribe(self) -> None:
        """Read nothing; leaves the group. The listener is called with what goes."""
        self._run(self._consumer.unsubscribe)

    def assign(self, partitions: Iterable[AnyPartition]) -> None:
        """Read exactly these partitions, outside any membership; replaces an earlier assignment."""
        self._do(lambda: self._consumer.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        return self._do(self._consumer.assignment)

    def subscription(self) -> set[str]:
        """The topics subscribed to; with a pattern those that match now."""
        return self._do(self._consumer.subscription)

    # --- reading ------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Records by partition, as soon as there are some; none when the time is up."""
        patience = as_millis(timeout_ms)
        with self._alone():
            if not self._handing and not self._is_woken:
                buffered = self._consumer.poll_buffered(max_records)
                if buffered is not None:
                    return buffered  # without going to the loop
            self._is_woken = False

        async def work() -> Records:
            self._handing = await self._consumer.poll(patience, max_records)
            return self._handing

        records = self._run(work)
        self._handing = {}
        return records

    def take_part(self, timeout_ms: float = 0) -> bool:
        """Be a member and read nothing; whether the group has settled in time."""
        return self._run(lambda: self._consumer.take_part(timeout_ms))

    def fetch_arrow(
        self, timeout_ms: float = 0, max_rows: int | None = None, columns: Iterable[str] = COLUMNS
    ) -> "dict[TopicPartition, pa.Table]":
        """As ``poll``, with an Arrow table for each partition: all there is, or up to ``max_rows``."""
        return self._run(lambda: self._consumer.fetch_arrow(timeout_ms, max_rows, columns))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records one at a time, for ever. A commit covers those that were handed out."""
        remaining: Remaining = self._remaining
        while True:
            record = remaining.next()
            if record is None:
                remaining.refill(self.poll(_ITERATION_MS).values())
            else:
                yield record

    def wakeup(self) -> None:
        """End the poll that waits, or the next one, with WakeupError. From any thread."""
        loop = self._loop
        if loop is None:
            raise self._not_working()
        self._owner_process.check()
        try:
            loop.call_soon(self._wake)
        except RuntimeError:  # the loop's own word for it
            raise ConsumerClosedError from None
        self._is_woken = True  # the next poll goes to the loop, behind this

    def _wake(self) -> None:
        with suppress(ConsumerClosedError):  # it may have been closed meanwhile
            self._consumer.wakeup()

    # --- where to read ------------------------------------------------------------------------

    def seek(self, partition: AnyPartition, offset: AnyOffset) -> None:
        """Read on from ``offset``; with a leader epoch the leader is asked first whether it still exists."""
        self._do(lambda: self._consumer.seek(partition, offset))

    def seek_to_beginning(self, *partitions: AnyPartition) -> None:
        """Read these (all, if none are named) from the start."""
        self._do(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: AnyPartition) -> None:
        """Read only what comes from now on."""
        self._do(lambda: self._consumer.seek_to_end(*partitions))

    def pause(self, *partitions: AnyPartition) -> None:
        """Return nothing of these until ``resume``; the group does not notice."""
        self._do(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: AnyPartition) -> None:
        self._do(lambda: self._consumer.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        return self._do(self._consumer.paused)

    def position(self, partition: AnyPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record to be returned."""
        return self._run(lambda: self._consumer.position(partition, timeout_ms))

    def current_lag(self, partition: AnyPartition) -> int | None:
        """How many offsets are left to be read, as far as known without asking."""
        return self._do(lambda: self._consumer.current_lag(partition))

    # --- commits ------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[PartitionKey, AnyOffset] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, or everything that was handed out, and wait for the answer."""
        self._run(lambda: self._consumer.commit(offsets, timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[PartitionKey, AnyOffset] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting, one attempt; the callback runs inside a later call."""
        self._do(lambda: self._consumer.commit_async(offsets, callback))

    def committed(
        self, *partitions: AnyPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing is."""
        return self._run(lambda: self._consumer.committed(*partitions, timeout_ms=timeout_ms))

    # --- the group and the cluster ------------------------------------------------------------

    def group_metadata(self) -> MemberGeneration:
        """The generation and the member id."""
        return self._do(self._consumer.group_metadata)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Let the group rebalance at the next poll."""
        self._do(lambda: self._consumer.enforce_rebalance(reason))

    def beginning_offsets(self, partitions: Iterable[AnyPartition]) -> dict[TopicPartition, int]:
        """The first offset there is of each."""
        wanted = as_partitions(partitions)
        return self._run(lambda: self._consumer.beginning_offsets(wanted))

    def end_offsets(self, partitions: Iterable[AnyPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record that can be read."""
        wanted = as_partitions(partitions)
        return self._run(lambda: self._consumer.end_offsets(wanted))

    def offsets_for_times(
        self, times: Mapping[PartitionKey, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record with a timestamp at or after the one given, for each partition."""
        return self._run(lambda: self._consumer.offsets_for_times(times))

    def partitions_for_topic(self, topic: str) -> set[int]:
        """The partitions of a topic; UnknownTopicError if there is none."""
        return self._run(lambda: self._consumer.partitions_for_topic(topic))

    def topics(self) -> set[str]:
        """All topics of the cluster that may be seen, without internal ones."""
        return self._run(self._consumer.topics)
