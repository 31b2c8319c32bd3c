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


async def load(core: Shard, log: Log) -> None:
    """Replay a log from its start to its end, giving way to the loop; raises what the core raises."""
    started = time.monotonic()
    offset = log.start_offset
    give_way_at = started + _SLICE_S
    while offset < log.high_watermark:
        found = log.read(offset, _READ_BYTES, limit=log.high_watermark, at_least_one=True)
        if not found.size:
            break  # compaction left nothing up to the end
        for buffer in found.buffers:
            view = memoryview(buffer)
            for position, header in batches(view):
                core.replay_batch(view[position : position + header.size], header)
                if time.monotonic() > give_way_at:
                    await asyncio.sleep(0)
                    give_way_at = time.monotonic() + _SLICE_S
        offset = found.next_offset
    for what, count in core.skipped.items():
        logger.warning("%s: left alone %d times while loading: %s", log.partition, count, what)
    logger.info(
        "%s: loaded up to offset %d in %.0f ms", log.partition, offset, 1e3 * (time.monotonic() - started)
    )
