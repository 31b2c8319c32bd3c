"""A day of a broker whose disk, threads or memory fail for a while: what is done in it, what must hold."""

import asyncio
import logging
import re
from typing import Any

from tests.fault.day import PATIENCE_MS, Day

from kohort.log.log import SyncPolicy
from kohort.testing.faults import Outage

FOR_EVER = 1 << 40
PLACE = re.compile(r"node/|\b[\w.]+-\d+\b|\bgroup \w")  # a path, a partition or a group


class Noise(logging.Handler):
    """Keeps what the broker logs."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


async def live(day: Day, rounds: int) -> None:
    """Create, produce, join, commit, compact, delete, subscribe, load, stop."""
    await day.start()
    await day.create("t", segment_ms=1)
    await day.create("gone")
    await day.create("compacted", cleanup_policy="compact", segment_ms=1, min_cleanable_dirty_ratio=0)
    for number in range(rounds):  # several logs are synced at a time
        await asyncio.gather(
            day.produce("t", f"t{number}"),
            day.produce("compacted", f"c{number}"),
            day.produce("gone", f"g{number}"),
            day.commit(number),
        )
    await day.pass_time(1_500)  # a compaction
    await day.add_partition("t", 2)
    await day.alter_configs("t")
    await day.get_producer_id()
    await day.find_by_time("t")
    await day.delete("gone")
    await day.create("gone")
    await day.produce("gone", "again")
    await day.commit(rounds)
    await day.subscribe()
    await day.check()
    await day.stop()
    await day.start()
    await day.check()
    await day.commit(rounds + 1)
    await day.delete_records("t", 2)
    day.produced["t"] = day.produced["t"][2:]
    await day.produce("t", "last")
    await day.delete("compacted")


async def end(day: Day, rounds: int) -> None:
    """The outage is over: everything works, now and after a loss of power."""
    day.asked = day.disk.counts + day.executor.counts
    day.suffer(None)
    await day.pass_time(PATIENCE_MS // 5)
    await day.check()
    for name in ("t", "gone", "new"):
        if name not in day.produced:
            await day.create(name)
        await day.produce(name, "at the end")
    await day.delete("new")
    await day.create("new")
    await day.commit(rounds + 2)
    await day.check()
    await day.lose_power()
    await day.start()
    await day.check()
    await day.stop()


def run(outage: Outage | None, policy: SyncPolicy = SyncPolicy.COMMIT, rounds: int = 2) -> Day:
    """Live a day with an outage; raises what is wrong with it."""
    day = Day(policy)
    unowned: list[dict[str, Any]] = []
    noise, logger = Noise(), logging.getLogger("kohort")
    logger.addHandler(noise)

    async def both() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unowned.append(context))
        day.suffer(outage)
        await live(day, rounds)
        await end(day, rounds)

    try:
        asyncio.run(both())
    finally:
        logger.removeHandler(noise)
    unclear = [error for error in day.failed_starts if "node" not in error]
    assert not unclear, f"an error at start names no path: {unclear}"
    assert not unowned, "a task or future failed without an owner"
    for record in noise.records:
        assert not record.exc_info, f"a traceback for {record.getMessage()}"
    lines = [record.getMessage() for record in noise.records if record.levelno >= logging.WARNING]
    unclear = [line for line in lines if "\n" in line or not PLACE.search(line)]
    assert not unclear, f"lines without a path, a partition or a group, or several: {unclear}"
    if outage is not None and outage.length == FOR_EVER and day.asked[outage.kind] >= outage.first:
        assert lines or day.failed_starts or day.out_of_memory, "an outage that lasts is not in the log"
    return day
