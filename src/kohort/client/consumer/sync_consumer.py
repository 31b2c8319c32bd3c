"""``Consumer``: the same consumer for programs without an event loop."""

import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from kohort.client.admin.clients import AsyncAdmin
from kohort.client.arguments import as_millis
from kohort.client.consumer.async_consumer import CLOSE_TIMEOUT_MS, AsyncConsumer
from kohort.client.consumer.engine import Records
from kohort.client.consumer.settings import ConsumerOptions
from kohort.client.errors import ConcurrentUseError, ConsumerClosedError
from kohort.client.fetching.buffer import Remaining
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.loop_thread import LoopThread, OwnerProcess

P = ParamSpec("P")
T = TypeVar("T")
_ITERATION_MS = 60_000


def _waiting(
    call: Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Consumer, P], T]":
    """A coroutine function of AsyncConsumer as a method that waits for its result."""

    @wraps(call)
    def method(self: "Consumer", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(lambda: call(self._consumer, *args, **kwargs))

    return method


def _at_once(
    call: Callable[Concatenate[AsyncConsumer, P], T],
) -> "Callable[Concatenate[Consumer, P], T]":
    """A plain method of AsyncConsumer: called on the loop; before there is one, in the caller's thread."""

    @wraps(call)
    def method(self: "Consumer", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._do(lambda: call(self._consumer, *args, **kwargs))

    return method


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

    def administer(self, work: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        """The result of ``work``, which gets an admin client on the connections of this consumer."""
        return self._run(lambda: work(self._consumer.admin()))

    # --- calls that wait for the loop ---------------------------------------------------------

    unsubscribe = _waiting(AsyncConsumer.unsubscribe)
    take_part = _waiting(AsyncConsumer.take_part)
    fetch_arrow = _waiting(AsyncConsumer.fetch_arrow)
    position = _waiting(AsyncConsumer.position)
    commit = _waiting(AsyncConsumer.commit)
    committed = _waiting(AsyncConsumer.committed)
    beginning_offsets = _waiting(AsyncConsumer.beginning_offsets)
    end_offsets = _waiting(AsyncConsumer.end_offsets)
    offsets_for_times = _waiting(AsyncConsumer.offsets_for_times)
    partitions_for_topic = _waiting(AsyncConsumer.partitions_for_topic)
    topics = _waiting(AsyncConsumer.topics)

    # --- calls that take no time --------------------------------------------------------------

    subscribe = _at_once(AsyncConsumer.subscribe)
    assign = _at_once(AsyncConsumer.assign)
    assignment = _at_once(AsyncConsumer.assignment)
    subscription = _at_once(AsyncConsumer.subscription)
    seek = _at_once(AsyncConsumer.seek)
    seek_to_beginning = _at_once(AsyncConsumer.seek_to_beginning)
    seek_to_end = _at_once(AsyncConsumer.seek_to_end)
    pause = _at_once(AsyncConsumer.pause)
    resume = _at_once(AsyncConsumer.resume)
    paused = _at_once(AsyncConsumer.paused)
    current_lag = _at_once(AsyncConsumer.current_lag)
    commit_async = _at_once(AsyncConsumer.commit_async)
    group_metadata = _at_once(AsyncConsumer.group_metadata)
    enforce_rebalance = _at_once(AsyncConsumer.enforce_rebalance)
