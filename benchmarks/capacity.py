"""How much a coordinator can hold: memory for each member, and loading a million offsets."""

import asyncio
import gc
import time
import tracemalloc

from kohort.broker.broker import BrokerState
from kohort.broker.clock import VirtualClock
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.broker.topics import ServedTopic
from kohort.groups.commands import Join, Protocol
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.log.files.disk import Disk
from kohort.log.files.memory import MemoryDisk
from kohort.log.log import Append
from kohort.model.ids import NO_TOPIC_ID, GroupId, Instant, Now, ReplyTo, WallTime
from kohort.records.batch import NewRecord, build_batch
from kohort.records.group_records import OffsetCommitKey, OffsetCommitValue
from kohort.records.offsets_topic import encode_key, encode_value

_SUBSCRIPTION = bytes.fromhex("0000000000010005") + b"bench" + bytes.fromhex("ffffffff")


def kilobytes_per_member(members: int, groups: int) -> float:
    """Memory of the core for each member, ``members`` of them spread over ``groups``."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    shard = Shard(GroupSettings(initial_rebalance_delay_ms=0), Instant(0))
    now = Now(Instant(0), WallTime(1_700_000_000_000))
    for number in range(members):
        shard.handle(
            Join(
                reply_to=ReplyTo(number + 1),
                group_id=GroupId(f"group-{number % groups}"),
                protocols=(Protocol("range", bytes(bytearray(_SUBSCRIPTION))),),
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
                client_id=f"client-{number}",
                client_host="/127.0.0.1",
                version=3,
                fresh_id=f"{number:032x}",
            ),
            now,
        )
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(len(group.members) for group in shard.state.groups.values()) == members
    return (after - before) / members / 1_000


async def _open(disk: Disk) -> BrokerState:
    settings = Settings(overrides={"offsets.topic.num.partitions": "1"})
    catalog, storage = await open_data(settings, disk)
    broker = BrokerState(settings, catalog, storage, VirtualClock())
    await broker.start()
    return broker


def seconds_to_load(offsets: int) -> tuple[float, float]:
    """From opening the data to answering, with so many live offsets in one partition; of the clock, and
    of the processor."""

    async def run() -> tuple[float, float]:
        disk = MemoryDisk()
        broker = await _open(disk)
        await broker.coordinator.ensure_offsets_topic()
        topic = broker.topics.get("__consumer_offsets")
        assert topic is not None
        for batch in _batches(offsets):
            await _append(broker, topic, batch)
        await broker.stop()
        started, used = time.perf_counter(), time.process_time()
        again = await _open(disk)
        await again.coordinator.ready()
        elapsed, used = time.perf_counter() - started, time.process_time() - used
        await again.stop()
        return elapsed, used

    return asyncio.run(run())


def _batches(offsets: int) -> list[bytes]:
    value = encode_value(OffsetCommitValue(42, -1, "", 1_700_000_000_000, -1, NO_TOPIC_ID))
    found = []
    for start in range(0, offsets, 1_000):
        rows = [
            NewRecord(
                1_700_000_000_000, encode_key(OffsetCommitKey(f"group-{n // 100}", "orders", n % 100)), value
            )
            for n in range(start, min(start + 1_000, offsets))
        ]
        found.append(build_batch(rows))
    return found


async def _append(broker: BrokerState, topic: ServedTopic, batch: bytes) -> None:
    log = topic.logs[0]
    append = Append(log.partition, bytearray(batch), log.leader_epoch, WallTime(0), from_client=False)
    await broker.storage.append([append])
