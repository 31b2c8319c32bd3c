"""How a consumer calls its application: rebalance listeners, commit callbacks, interceptors."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kohort.client.subscription import OffsetAndMetadata
from kohort.model.errors import KohortError
from kohort.model.topics import TopicPartition

_log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, KohortError | None], object]
"""Hears how an asynchronous commit ended; may be a coroutine function in an ``AsyncConsumer``."""

Invoke = Callable[[Callable[[], object]], Awaitable[object]]
"""Runs a call in the application's context and waits for it."""


async def invoke_here(call: Callable[[], object]) -> object:
    """In the task that polls; what can be awaited is awaited."""
    result = call()
    return await result if inspect.isawaitable(result) else result


class Interceptors:
    """Objects with ``on_consume(records)`` (returns records, or None for the same) or ``on_commit(offsets)``.

    What they raise is logged and goes no further.
    """

    def __init__(self, interceptors: Sequence[object]) -> None:
        self._consuming = [each for each in interceptors if hasattr(each, "on_consume")]
        self._committing = [each for each in interceptors if hasattr(each, "on_commit")]

    @property
    def consume(self) -> bool:
        """Whether any wants to see records."""
        return bool(self._consuming)

    def on_consume(self, records: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, list[Any]]:
        for each in self._consuming:
            try:
                seen = getattr(each, "on_consume")(records)  # noqa: B009 - not every interceptor has it
            except Exception:
                _log.exception("an interceptor failed in on_consume")
            else:
                records = records if seen is None else seen
        return records

    def on_commit(self, offsets: Offsets) -> None:
        for each in self._committing:
            try:
                getattr(each, "on_commit")(offsets)  # noqa: B009 - not every interceptor has it
            except Exception:
                _log.exception("an interceptor failed in on_commit")


def log_commit(offsets: Offsets, error: KohortError | None) -> None:
    """The callback of a commit that was given none."""
    if error is not None:
        _log.error("an asynchronous commit of %d partitions failed: %s", len(offsets), error)
