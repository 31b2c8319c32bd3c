"""Waiting that ends: for what the test wants, or at a deadline with a text that says what was missing."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0  # far more than anything here takes on an idle machine


class Deadline:
    """The latest moment by which something must have happened."""

    def __init__(self, wanted: str, seconds: float = PATIENCE_SECONDS) -> None:
        self._wanted = wanted
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self, instead: object = "") -> None:
        """Fail the test once the time is over."""
        if time.monotonic() > self._end:
            raise AssertionError(f"waited {self._seconds:g} s for {self._wanted}; {instead}")


def eventually(wanted: str, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Ask until the answer is yes. Asking must itself take a moment: a poll of a client, a read of a pipe."""
    deadline = Deadline(wanted, seconds)
    while not condition():
        deadline.check()
