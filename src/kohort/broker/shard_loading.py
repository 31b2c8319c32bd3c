"""Reading a partition of ``__consumer_offsets`` into the core that will serve it."""

import asyncio
import logging
import time

from kohort.groups.shard import Shard
from kohort.log.log import Log
from kohort.records.header import batches

logger = logging.getLogger("kohort.loading")

_READ_BYTES = 5 * 1024 * 1024  # Kafka's offsets.load.buffer.size
_SLICE_S = 0.005  # how long a load may keep the loop from everybody else


class _Turns:
    """Lets others have the loop when this has had it for long enough."""

    def __init__(self, started: float) -> None:
        self._until = started + _SLICE_S

    async def give_way(self) -> None:
        if time.monotonic() > self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + _SLICE_S


async def load(core: Shard, log: Log) -> None:
    """Replay a log from its start to its end, giving way to the loop; raises what the core raises."""
    started = time.monotonic()
    offset = log.start_offset
    turns = _Turns(started)
    while offset < log.high_watermark:
        found = log.read(offset, _READ_BYTES, limit=log.high_watermark, at_least_one=True)
        if not found.size:
            break  # compaction left nothing up to the end
        for buffer in found.buffers:
            view = memoryview(buffer)
            for position, header in batches(view):
                core.replay_batch(view[position : position + header.size], header)
                await turns.give_way()
        offset = found.next_offset
    for _ in core.decode_groups():
        await turns.give_way()
    for what, count in core.skipped.items():
        logger.warning("%s: left alone %d times while loading: %s", log.partition, count, what)
    logger.info(
        "%s: loaded up to offset %d in %.0f ms", log.partition, offset, 1e3 * (time.monotonic() - started)
    )
