"""``Producer``: the same for programs without an event loop. The engine runs on a thread of its own."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, Unpack

from kohort.client.producer.async_producer import AsyncProducer
from kohort.client.producer.batch import RecordMetadata
from kohort.client.producer.errors import BufferFullError, ProducerClosedError
from kohort.client.producer.serializing import Headers
from kohort.client.producer.settings import ProducerSettings, SettingNames

_T = TypeVar("_T")
_INBOX = 2_000  # records handed over to the loop and not yet in its buffer


class _Handed(NamedTuple):
    arguments: tuple[str, Any, Any]
    where: dict[str, Any]
    delivered: Future[RecordMetadata]


class Producer:
    """Sends records to Kohort or Apache Kafka: ``with Producer(bootstrap_servers=…) as producer``.

    Settings are those of :class:`ProducerSettings`. Any number of threads may use it; the records of each
    keep their order.
    """

    def __init__(self, **settings: Unpack[SettingNames]) -> None:
        self._producer = AsyncProducer(**settings)
        self._inbox: deque[_Handed] = deque()
        self._slots = threading.BoundedSemaphore(_INBOX)
        self._lock = threading.Lock()
        self._feeder: Future[None] | None = None  # carries the inbox into the engine
        self._thread: threading.Thread | None = None
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def settings(self) -> ProducerSettings:
        return self._producer.settings

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect. Raises NoBrokerError at once if nobody answers. A closed producer is not started again."""
        if self._thread is not None:
            return
        if self._loop is not None:
            raise ProducerClosedError("this producer was closed", hint="make another one")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kohort producer", daemon=True)
        self._thread.start()
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
    ) -> Future[RecordMetadata]:
        """Put a record on its way; ``.result(timeout)`` of what comes back says where it went.

        Waits while the buffer is full, at most ``max_block_ms``; then BufferFullError. Everything else that
        goes wrong with the record is raised by ``result``, as :meth:`AsyncProducer.send` describes it.
        """
        where = {"partition": partition, "timestamp_ms": timestamp_ms, "headers": headers}
        delivered: Future[RecordMetadata] = Future()
        delivered.set_running_or_notify_cancel()  # what is on its way cannot be called back
        if not self._slots.acquire(timeout=self.settings.max_block_ms / 1_000):
            raise BufferFullError(self.settings.max_block_ms, self.settings.max_buffered_bytes)
        with self._lock:
            if self._thread is None or self._loop is None or self._closing:
                self._slots.release()
                raise ProducerClosedError("the producer is not running", hint="use it inside `with`")
            self._inbox.append(_Handed((topic, value, key), where, delivered))
            if self._feeder is None:
                self._feeder = asyncio.run_coroutine_threadsafe(self._feed(), self._loop)
        return delivered

    def flush(self, timeout: float | None = None) -> None:
        """Return when all sent before is delivered or refused; TimeoutError after so many seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        feeder = self._feeder
        if feeder is not None:
            feeder.result(timeout)
        self._run(self._producer.flush(), None if end is None else max(0.0, end - time.monotonic()))

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush, then close the connections. What is not delivered after ``timeout_ms`` fails."""
        with self._lock:
            if self._thread is None or self._closing:
                return
            self._closing = True
        end = None if timeout_ms is None else time.monotonic() + timeout_ms / 1_000
        try:
            if self._feeder is not None:
                self._give_time(self._feeder, timeout_ms)
            left = None if end is None else max(0, int((end - time.monotonic()) * 1_000))
            self._run(self._producer.close(left))
        finally:
            self._end()

    def _give_time(self, feeder: Future[None], timeout_ms: int | None) -> None:
        try:
            feeder.result(None if timeout_ms is None else timeout_ms / 1_000)
        except TimeoutError:
            feeder.cancel()

    # On the loop's thread

    async def _feed(self) -> None:
        """Carry records from the inbox into the engine, one after another: that keeps their order."""
        while True:
            with self._lock:
                if not self._inbox:
                    self._feeder = None
                    return
                handed = self._inbox.popleft()
            try:
                future = await self._producer.send(*handed.arguments, **handed.where)
            except asyncio.CancelledError:
                handed.delivered.set_exception(_closed())
                raise
            except Exception as error:  # a serializer may raise anything: it belongs to this record
                handed.delivered.set_exception(error)
            else:
                future.add_done_callback(partial(_pass_on, handed.delivered))
            finally:
                self._slots.release()

    # From any other thread

    def _run(self, coroutine: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
        if self._thread is None or self._loop is None:
            coroutine.close()
            raise ProducerClosedError("the producer is not running", hint="use it inside `with`")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    def _end(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()
        for handed in self._inbox:
            handed.delivered.set_exception(_closed())
        self._inbox.clear()


def _closed() -> ProducerClosedError:
    return ProducerClosedError("the producer was closed before the record was sent")


def _pass_on(delivered: Future[RecordMetadata], future: asyncio.Future[RecordMetadata]) -> None:
    error = future.exception()
    if error is not None:
        delivered.set_exception(error)
    else:
        delivered.set_result(future.result())
