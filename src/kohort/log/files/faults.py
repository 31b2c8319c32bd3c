"""Faults of the disk that requests meet: the client gets a retriable code, the operator a line in the log."""

import logging
import time

from kohort.model.errors import ErrorCode, RefusedError

logger = logging.getLogger("kohort.storage")

WINDOW_S = 60.0
_MOST_LINES = 20  # in a window: a disk that fails may hold thousands of partitions


class StorageFaults:
    """Logs each fault once a minute, a few of them in all, and how many more there were."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._left_out: set[str] = set()
        self._since = 0.0

    def refused(self, reason: str) -> RefusedError:
        """KAFKA_STORAGE_ERROR for the client; the log says why."""
        self.warn(reason)
        return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def warn(self, reason: str) -> None:
        """Log a fault that costs no request, and is mended later."""
        now = time.monotonic()
        if now - self._since >= WINDOW_S:
            if self._left_out:
                count, example = len(self._left_out), min(self._left_out)
                logger.warning("%d faults were not logged one by one, such as: %s", count, example)
            self._said, self._left_out, self._since = set(), set(), now
        if reason not in self._said:
            if len(self._said) < _MOST_LINES:
                self._said.add(reason)
                logger.warning("%s", reason)
            else:
                self._left_out.add(reason)
