"""Faults of the disk that requests meet: the client gets a retriable code, the operator a line in the log."""

import logging
from functools import partial

from kohort.log.log import FaultListener
from kohort.model.errors import ErrorCode, RefusedError


class StorageFaults:
    """Tells the operator of each fault; the ``warn`` that a broker sets keeps the log short."""

    def __init__(self) -> None:
        self.warn: FaultListener = partial(logging.getLogger("kohort.storage").warning, "%s")

    def refused(self, reason: str) -> RefusedError:
        """KAFKA_STORAGE_ERROR for the client; the log says why."""
        self.warn(reason)
        return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
