"""One append for all partitions of an internal topic that have something to store in a turn of the loop."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.coordination.shard import CoordinatorShard
from kohort.log.log import Append, Storage

if TYPE_CHECKING:
    from kohort.broker.partition_runtime import PartitionRuntime

logger = logging.getLogger("kohort.coordinator")


class Appends:
    """What the partitions of a topic have to store, in one append for each turn of the loop.

    A partition that is ready has its part in the next one; whatever fails there is its own.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ready: list[PartitionRuntime[Any]] = []

    def join(self, runtime: "PartitionRuntime[Any]") -> None:
        """Take part in the next append. Not at once: requests that are being read in this turn share it."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._append)
        self._ready.append(runtime)

    def _append(self) -> None:
        ready, self._ready = self._ready, []
        appends: list[Append] = []
        parts: list[_PartitionAppend] = []
        for runtime in ready:
            gathered = runtime.gather()
            if gathered is not None:
                first = len(appends)
                appends += gathered[0]
                parts.append(
                    _PartitionAppend(runtime, runtime.shard, gathered[1], slice(first, len(appends)))
                )
        if not parts:
            return
        try:
            future = self._storage.append(appends)
        except Exception:  # of the storage: whether the records are stored is not known
            for part in parts:
                _alone(part.runtime, part.runtime.lose_append)
            return
        for part in parts:
            part.runtime.appending = future
        future.add_done_callback(partial(_settle, parts))


class _PartitionAppend(NamedTuple):
    """What one partition has in an append."""

    runtime: "PartitionRuntime[Any]"
    shard: CoordinatorShard[Any, Any, Any]
    position: int  # that it reaches
    batches: slice


def _settle(parts: "list[_PartitionAppend]", done: "asyncio.Future[list[Any]]") -> None:
    try:
        results = done.result()
    except (Exception, asyncio.CancelledError):
        logger.exception("an append of %d partitions failed as a whole", len(parts))
        for part in parts:
            _alone(part.runtime, part.runtime.lose_append, part.shard)
        return
    for runtime, shard, position, batches in parts:
        _alone(runtime, runtime.settle, shard, position, results[batches])


def _alone(runtime: "PartitionRuntime[Any]", step: Callable[..., None], *arguments: object) -> None:
    """What one partition does after an append; if even that fails, the others of the append go on."""
    try:
        step(*arguments)
    except Exception:
        logger.exception("%s: the coordinator did not survive an append", runtime.log.partition)
