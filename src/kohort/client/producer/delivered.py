"""What ``Producer.send`` returns: a future of ``concurrent.futures`` that costs a fraction of one."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, RUNNING  # the states that `wait` and `as_completed` look at

from kohort.client.producer.batch import RecordMetadata


class Arrivals:
    """The lock that the futures of one producer share, and how many threads wait for any of them."""

    __slots__ = ("changed", "lock", "waiting")

    def __init__(self) -> None:
        self.lock = threading.RLock()  # `wait` acquires it once for every future it is given
        self.changed = threading.Condition(self.lock)
        self.waiting = 0


class Delivered(Future[RecordMetadata]):
    """Where a record went. What is on its way cannot be called back: ``cancel`` never succeeds."""

    def __init__(self, arrivals: Arrivals) -> None:
        # In place of the constructor of Future, which makes a lock and a condition for each: half the time
        # that a record takes on its way.
        self._arrivals = arrivals
        self._condition = arrivals.changed
        self._state = RUNNING
        self._result = None
        self._exception = None
        self._waiters = []
        self._done_callbacks: list[Callable[[Future[RecordMetadata]], object]] = []

    def done(self) -> bool:
        return self._state == FINISHED

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; raises why it is not there, or TimeoutError after so many seconds."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if self.done():
            return
        arrivals = self._arrivals
        with arrivals.lock:
            arrivals.waiting += 1
            try:
                # Others arriving wake us too: that is what sharing costs.
                arrivals.changed.wait_for(self.done, timeout)
            finally:
                arrivals.waiting -= 1
        if not self.done():
            raise TimeoutError

    def set_result(self, result: RecordMetadata) -> None:
        arrivals = self._arrivals
        with arrivals.lock:
            if not self._waiters and not self._done_callbacks:
                self._result = result
                self._state = FINISHED
                if arrivals.waiting:
                    arrivals.changed.notify_all()
                return
        super().set_result(result)  # which tells everybody else
