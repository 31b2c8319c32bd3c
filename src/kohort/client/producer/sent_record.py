"""What ``Producer.send`` returns: a record on its way, and where it went."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from kohort.client.producer.batch import RecordMetadata
from kohort.client.producer.errors import WaitInCallbackError

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
        """Where the record is; raises why it is not there, or TimeoutError after so many seconds."""
        self._wait(timeout)
        if self._error is not None:
            raise self._error
        assert self._metadata is not None
        return self._metadata

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why the record is not there, None if it is; TimeoutError after so many seconds."""
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
        arrivals = self._arrivals
        with arrivals.lock:
            self._metadata = metadata
            if arrivals.waiting:
                arrivals.changed.notify_all()
        if self._callbacks is not None:
            self._call_back()

    def set_exception(self, error: BaseException) -> None:
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
