"""What ``Producer.send`` returns: a future of ``concurrent.futures`` that costs a fraction of one."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, RUNNING  # the states that `wait` and `as_completed` look at
from functools import cached_property
from typing import Any

from kohort.client.producer.batch import RecordMetadata
from kohort.client.producer.errors import WaitInCallbackError


class Arrivals:
    """The lock that the futures of one producer share, and how many threads wait for any of them."""

    __slots__ = ("changed", "lock", "setter", "waiting")

    def __init__(self) -> None:
        self.lock = threading.RLock()  # `wait` acquires it once for every future it is given
        self.changed = threading.Condition(self.lock)
        self.waiting = 0
        self.setter: int | None = None  # the thread that tells them


class Delivered(Future[RecordMetadata]):
    """Where a record went. What is on its way cannot be called back: ``cancel`` never succeeds."""

    # The constructor of Future makes a lock, a condition and two lists for each: half the time that a record
    # takes on its way. These are its attributes as they begin; the lists are made for those who ask.
    _state = RUNNING
    _result = None
    _exception = None
    _is_watched = False

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._condition = arrivals.changed

    @cached_property
    def _waiters(self) -> list[Any]:  # type: ignore[override]  # of Future, where it is a plain attribute
        self._is_watched = True
        return []

    @cached_property
    def _done_callbacks(self) -> list[Callable[[Future[RecordMetadata]], object]]:
        self._is_watched = True
        return []

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
        if threading.get_ident() == arrivals.setter:
            raise WaitInCallbackError
        with arrivals.lock:
            arrivals.waiting += 1
            try:
                # Others arriving wake us too: that is what sharing costs.
                arrivals.changed.wait_for(self.done, timeout)
            finally:
                arrivals.waiting -= 1
        if not self.done():
            raise TimeoutError(f"the record was not acknowledged within {timeout} s; it may still be")

    def set_result(self, result: RecordMetadata) -> None:
        arrivals = self._arrivals
        with arrivals.lock:
            if not self._is_watched:
                self._result = result
                self._state = FINISHED
                if arrivals.waiting:
                    arrivals.changed.notify_all()
                return
        super().set_result(result)  # which tells everybody else
