"""``Producer``: the same for programs without an event loop. The engine runs on a thread of its own."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from kohort.client.errors import BufferFullError, ProducerClosedError, WaitInCallbackError
from kohort.client.loop_thread import LoopThread, OwnerProcess
from kohort.client.producer.accumulator import Added
from kohort.client.producer.async_producer import AsyncProducer, Submission
from kohort.client.producer.batch import Block, Receipt, RecordMetadata
from kohort.client.producer.records import Headers, check_target, in_bytes
from kohort.client.producer.settings import ProducerSettings, SettingNames
from kohort.model.errors import KohortError

_log = logging.getLogger(__name__)


class Arrivals:
    """The lock that the records of one producer share, and how many threads wait for any of them.

    A lock for each record would take as long as the rest of its way.
    """

    __slots__ = ("changed", "lock", "setter", "waiting")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.waiting = 0
        self.setter: int | None = None  # the thread that tells them


class SentRecord:
    """A record on its way; it cannot be called back.

    ``as_future`` makes a future of it, for ``concurrent.futures.wait`` and ``asyncio.wrap_future``.
    """

    __slots__ = ("_arrivals", "_callbacks", "_error", "_metadata")

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._metadata: RecordMetadata | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[SentRecord], object]] | None = None

    def __repr__(self) -> str:
        if not self.done():
            return "<SentRecord on its way>"
        return f"<SentRecord {self._metadata if self._error is None else repr(self._error)}>"

    def done(self) -> bool:
        """Whether it was acknowledged, refused or given up."""
        return self._metadata is not None or self._error is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; raises why it is not there, or TimeoutError after ``timeout`` seconds."""
        self._wait(timeout)
        if self._error is not None:
            raise self._error
        assert self._metadata is not None
        return self._metadata

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why the record is not there, None if it is; TimeoutError after ``timeout`` seconds."""
        self._wait(timeout)
        return self._error

    def add_done_callback(self, callback: "Callable[[SentRecord], object]") -> None:
        """Have ``callback(self)`` called in the producer's thread, or at once if the record is done."""
        with self._arrivals.lock:
            if not self.done():
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
                return
        callback(self)

    def as_future(self) -> Future[RecordMetadata]:
        """A future of the same result."""
        future: Future[RecordMetadata] = Future()
        future.set_running_or_notify_cancel()
        self.add_done_callback(lambda sent: sent._settle(future))
        return future

    def _settle(self, future: Future[RecordMetadata]) -> None:
        if self._error is not None:
            future.set_exception(self._error)
        elif self._metadata is not None:
            future.set_result(self._metadata)

    def _wait(self, timeout: float | None) -> None:
        if self.done():
            return
        arrivals = self._arrivals
        if threading.get_ident() == arrivals.setter:
            raise WaitInCallbackError
        with arrivals.lock:
            arrivals.waiting += 1
            try:
                # Others that arrive wake us too: that is the price of one lock for all.
                arrivals.changed.wait_for(self.done, timeout)
            finally:
                arrivals.waiting -= 1
        if not self.done():
            raise TimeoutError(f"the record was not acknowledged within {timeout} s; it may still be")

    # For the producer, on its own thread

    def set_result(self, metadata: RecordMetadata) -> None:
        """Used by the producer: the broker has acknowledged the record."""
        arrivals = self._arrivals
        with arrivals.lock:
            self._metadata = metadata
            if arrivals.waiting:
                arrivals.changed.notify_all()
        if self._callbacks is not None:
            self._call_back()

    def set_exception(self, error: BaseException) -> None:
        """Used by the producer: the record was refused or given up."""
        arrivals = self._arrivals
        with arrivals.lock:
            self._error = error
            arrivals.changed.notify_all()
        if self._callbacks is not None:
            self._call_back()

    def _call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks or [], None
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("a callback of %r failed", self)


_T = TypeVar("_T")
_INBOX = 2_000  # records handed over to the loop and not yet on their way into its buffer
_GATHER_MS = 1  # records handed over within that time wake the loop's thread once, not each


_Handed = tuple[Submission, SentRecord]
_Item = _Handed | Future[None]
"""A record for the loop's thread, or a mark that is set when it is passed."""


class Producer:
    """Sends records to Kohort or Apache Kafka: ``with Producer(bootstrap_servers=…) as producer``.

    Settings are those of :class:`ProducerSettings`. Any number of threads may use it; the records of each
    keep their order.
    """

    def __init__(self, **settings: Unpack[SettingNames]) -> None:
        self._producer = AsyncProducer(**settings)
        self._inbox: deque[_Item] = deque()
        self._arrivals = Arrivals()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._feeder: Future[None] | None = None  # carries the inbox into the engine
        self._loop: LoopThread | None = None
        self._closing = self._is_ended = False
        self._owner_process = OwnerProcess("producer")

    def __repr__(self) -> str:
        return repr(self._producer).replace("AsyncProducer", "Producer", 1)

    @property
    def settings(self) -> ProducerSettings:
        """The settings as they apply."""
        return self._producer.settings

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect. NoBrokerError at once if no broker answers. A closed producer is not started again."""
        if self._loop is not None:
            self._owner_process.check()
            return
        if self._is_ended:
            raise ProducerClosedError("this producer was closed", hint="make another one")
        self._owner_process = OwnerProcess("producer")
        self._loop = LoopThread("kohort producer")
        self._arrivals.setter = self._loop.thread_id
        try:
            self._run(self._producer.start())
        except BaseException:
            self._end()
            raise

    def send(  # noqa: PLR0913 (the signature users of other clients know)
        self,
        topic: str,
        value: Any = None,  # noqa: ANN401 (whatever value_serializer takes)
        key: Any = None,  # noqa: ANN401 (whatever key_serializer takes)
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> SentRecord:
        """Put a record on its way; ``.result(timeout)`` of what comes back says where it went.

        Waits until the topic is known, and while the buffer is full, at most ``max_block_ms``; then
        BufferFullError. TypeError for what is no bytes, without a serializer. Everything else that goes wrong
        with the record is raised by ``result``, as :meth:`AsyncProducer.send` describes it.
        """
        self._owner_process.check()
        if type(topic) is not str or partition is not None:
            check_target(topic, partition)
        if type(value) is not bytes and value is not None and self.settings.value_serializer is None:
            value = in_bytes("value", value, None)
        if type(key) is not bytes and key is not None and self.settings.key_serializer is None:
            key = in_bytes("key", key, None)
        delivered = SentRecord(self._arrivals)
        if not self._producer.knows(topic) and not self._is_own_thread:
            try:
                self.layout(topic)  # here, so that a topic that does not exist does not hold up other records
            except ProducerClosedError:
                raise
            except Exception as error:
                if self._closing:  # the lookup fails in many ways while connections are being closed
                    raise ProducerClosedError("the producer was closed meanwhile") from error
                delivered.set_exception(error)
                return delivered
        with self._lock:
            if len(self._inbox) >= _INBOX and not self._changed.wait_for(
                lambda: len(self._inbox) < _INBOX or self._closing, self.settings.max_block_ms / 1_000
            ):
                raise BufferFullError(self.settings.max_block_ms, self.settings.max_buffered_bytes)
            self._hand_over(((topic, value, key, partition, timestamp_ms, headers), delivered))
        return delivered

    def put(self, blocks: Iterable[Block], receipt: Receipt) -> None:
        """Put encoded batches on their way, as :meth:`AsyncProducer.put` does, behind all that was sent."""
        with self._changed:
            is_idle = not self._inbox and self._feeder is None
        if not is_idle:
            self._pass_inbox(None)
        self._run(self._producer.put(blocks, receipt))

    def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions; the broker may create it, if it is set up to."""
        return self._run(self._producer.partitions_for(topic))

    def layout(self, topic: str) -> tuple[int, list[int]]:
        """How many partitions a topic has, and which of them have a leader (all, if none has)."""
        return self._run(self._producer.layout(topic))

    def flush(self, timeout: float | None = None) -> None:
        """Return when all sent before is delivered or refused; TimeoutError after ``timeout`` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        self._pass_inbox(timeout)
        self._run(self._producer.flush(), None if end is None else max(0.0, end - time.monotonic()))

    def _pass_inbox(self, timeout: float | None) -> None:
        """Return when all sent before is in the engine; TimeoutError after ``timeout`` seconds."""
        mark: Future[None] = Future()
        self._check_caller()
        with self._changed:
            self._hand_over(mark)
        _in_time(mark, timeout)

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close the connections. What is not delivered after ``timeout_ms`` fails.

        In a process that was forked it does nothing.
        """
        if self._owner_process.is_another:
            return
        if self._is_own_thread:
            raise WaitInCallbackError
        end = None if timeout_ms is None else time.monotonic() + timeout_ms / 1_000
        with self._changed:
            if self._loop is None or self._closing:
                return
            self._closing = True
            feeder = self._feeder
            self._changed.notify_all()
        try:
            if feeder is not None:
                self._give_time(feeder, timeout_ms)
            left = None if end is None else max(0, int((end - time.monotonic()) * 1_000))
            self._run(self._producer.close(left))
        except BaseException:  # Ctrl-C: there is no time left
            self._run(self._producer.close(0))
            raise
        finally:
            self._end()

    def _hand_over(self, item: _Item) -> None:
        """Put something in the inbox, and wake the loop's thread if it does not look there already."""
        if self._loop is None or self._closing:
            raise ProducerClosedError("the producer is not running", hint="use it inside `with`")
        self._inbox.append(item)
        if self._feeder is None:
            self._feeder = self._loop.submit(self._feed())

    def _give_time(self, feeder: Future[None], timeout_ms: int | None) -> None:
        try:
            feeder.result(None if timeout_ms is None else timeout_ms / 1_000)
        except TimeoutError:
            feeder.cancel()

    # On the loop's thread

    async def _feed(self) -> None:
        """Carry records from the inbox into the engine, one after another: that keeps their order."""
        gathered = False
        while True:
            with self._changed:
                if not self._inbox and gathered:
                    self._feeder = None
                    return
                carried, self._inbox = self._inbox, deque()
                self._changed.notify_all()
            gathered = not carried
            try:
                await self._carry(carried)
            except asyncio.CancelledError:
                _drop(carried)
                raise
            if gathered and not self._closing:
                await asyncio.sleep(min(_GATHER_MS, self.settings.linger_ms) / 1_000)

    async def _carry(self, items: deque[_Item]) -> None:
        """Take one after another out of ``items``, and wait only where it has to be."""
        submit_at_once = self._producer.submit_at_once
        while items:
            item = items.popleft()
            if isinstance(item, Future):
                item.set_result(None)
                continue
            record, delivered = item
            added: Added | None = None
            try:
                added = submit_at_once(record, delivered)
                if added is None:
                    await self._producer.submit(record, delivered)
                elif added is Added.FILLED:
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                if added is None:
                    _drop([item])
                raise
            except Exception as error:  # a serializer may raise anything: it belongs to this record
                delivered.set_exception(error)

    # From any other thread

    @property
    def _is_own_thread(self) -> bool:
        return threading.get_ident() == self._arrivals.setter

    def _check_caller(self) -> None:
        self._owner_process.check()
        if self._is_own_thread:
            raise WaitInCallbackError

    def _run(self, coroutine: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
        try:
            self._check_caller()
        except KohortError:
            coroutine.close()
            raise
        with self._lock:  # so that what is begun before the end is also ended by it
            if self._loop is None:
                coroutine.close()
                raise ProducerClosedError("the producer is not running", hint="use it inside `with`")
            begun = self._loop.submit(coroutine)
        try:
            return _in_time(begun, timeout)
        except TimeoutError:
            begun.cancel()  # it is not awaited any more
            raise
        except CancelledError:
            raise ProducerClosedError("the producer was closed meanwhile") from None

    def _end(self) -> None:
        with self._lock:
            loop, self._loop, self._is_ended = self._loop, None, True
        if loop is not None:
            loop.stop()
        _drop(self._inbox)


def _in_time(awaited: Future[_T], timeout: float | None) -> _T:
    try:
        return awaited.result(timeout)
    except TimeoutError:
        if awaited.done():
            raise  # its own
        raise TimeoutError("not done in time; what was sent stays on its way") from None


def _drop(items: Iterable[_Item]) -> None:
    """Tell those who wait that the producer was closed first."""
    for item in items:
        waiting = item if isinstance(item, Future) else item[1]
        waiting.set_exception(ProducerClosedError("the producer was closed before the record was sent"))
