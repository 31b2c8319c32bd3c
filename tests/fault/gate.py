"""Where a thread of the broker waits until a test lets it on."""

import threading

from tests.broker.raw import DEADLINE_S


class Gate:
    """Closed at first; one thread at a time may be in it."""

    def __init__(self) -> None:
        self._reached = threading.Semaphore(0)
        self._opened = threading.Event()
        self._inside = 0

    def enter(self) -> None:
        """For the thread: comes back when the gate is open."""
        self._inside += 1
        assert self._inside == 1, "one at a time"
        self._reached.release()
        assert self._opened.wait(DEADLINE_S)
        self._inside -= 1

    def await_somebody(self) -> None:
        """Until a thread stands in the gate."""
        assert self._reached.acquire(timeout=DEADLINE_S)

    def open(self) -> None:
        """For good."""
        self._opened.set()
