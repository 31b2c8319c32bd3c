"""A rolling restart of a group: how long its partitions have no owner, by protocol.

``python -m benchmarks.rolling`` prints this part alone. The members are Kohort's own consumers, in one
process, on each broker that is compared. One after the other leaves and comes back; the next one goes when
every partition has an owner, and every member a partition.
"""

import argparse
import asyncio
import sys
import time
from contextlib import ExitStack
from itertools import count
from typing import Any

from benchmarks.groups import topic_partitions
from benchmarks.rounds import Table
from benchmarks.targets import HEARTBEAT_MS, Target, kohort, peers
from kohort.client.consumer import AsyncConsumer
from kohort.client.subscription import Partitions
from kohort.model.topics import TopicPartition

MEMBERS = 20
PARTITIONS = 60
_PATIENCE_S = 60
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager (range)": {"partition_assignment_strategy": ("range",), "heartbeat_interval_ms": HEARTBEAT_MS},
    "cooperative": {
        "partition_assignment_strategy": ("cooperative-sticky",),
        "heartbeat_interval_ms": HEARTBEAT_MS,
    },
    "consumer (KIP-848)": {"group_protocol": "consumer"},
}

_groups = count()


class Owners:
    """Who owns which partition, and how long partitions had no owner since ``start``, all taken together."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._owned: dict[TopicPartition, int] = {}
        self._orphaned = 0.0
        self._since = time.perf_counter()
        self.changed = asyncio.Event()

    @property
    def orphaned(self) -> float:
        """Partition-seconds."""
        self._count()
        return self._orphaned

    def start(self) -> None:
        self._orphaned, self._since = 0.0, time.perf_counter()

    def take(self, member: int, partitions: Partitions) -> None:
        self._count()
        self._owned.update(dict.fromkeys(partitions, member))
        self.changed.set()

    def give(self, member: int, partitions: Partitions) -> None:
        self._count()
        for partition in partitions:
            if self._owned.get(partition) == member:
                del self._owned[partition]
        self.changed.set()

    async def complete(self, members: int) -> None:
        """Wait until every partition has an owner, and every member has a partition."""
        async with asyncio.timeout(_PATIENCE_S):
            while len(self._owned) < self._partitions or len(set(self._owned.values())) < members:
                self.changed.clear()
                await self.changed.wait()

    def _count(self) -> None:
        now = time.perf_counter()
        self._orphaned += (self._partitions - len(self._owned)) * (now - self._since)
        self._since = now


class Member:
    """A consumer that polls. It tells the owners what it has."""

    def __init__(self, number: int, topic: str, owners: Owners, options: dict[str, Any]) -> None:
        self._number = number
        self._topic = topic
        self._owners = owners
        self._options = options

    async def start(self) -> None:
        self._consumer = AsyncConsumer(**self._options)
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self)
        self._stopping = False
        self._polling = asyncio.ensure_future(self._poll())

    async def stop(self) -> None:
        self._stopping = True
        await self._polling
        await self._consumer.close()

    async def _poll(self) -> None:
        while not self._stopping:
            await self._consumer.poll(50)

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._owners.take(self._number, partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._owners.give(self._number, partitions)


async def restart_all(target: Target, protocol: str, members: int) -> tuple[float, float]:
    """Partition-seconds without an owner, and seconds, of one restart of every member."""
    number = next(_groups)
    topic = f"rolling-{PARTITIONS}"
    await topic_partitions(target, topic, PARTITIONS)
    options = {
        "bootstrap_servers": target.bootstrap,
        "group_id": f"rolling-{number}",
        "auto_offset_reset": "earliest",
        **PROTOCOLS[protocol],
    }
    owners = Owners(PARTITIONS)
    everybody = [Member(each, topic, owners, options) for each in range(members)]
    for member in everybody:
        await member.start()
    try:
        await owners.complete(members)
        owners.start()
        started = time.perf_counter()
        for member in everybody:
            await member.stop()
            await member.start()
            await owners.complete(members)
        return owners.orphaned, time.perf_counter() - started
    finally:
        await asyncio.gather(*(member.stop() for member in everybody))


def tables(targets: list[Target], rounds: int, members: int = MEMBERS) -> list[Table]:
    """By protocol and broker. One round takes about a minute."""
    note = (
        f"{members} members with {PARTITIONS} partitions are restarted one after the other. All of them are"
        f" Kohort's own consumers; heartbeats every {HEARTBEAT_MS} ms."
    )
    orphaned = Table("Rolling restart: partition-seconds without an owner", "s", note, False, compared=False)
    clock = Table("The same: how long it took", "s", "", False, compared=False)
    for _ in range(rounds):
        for protocol in PROTOCOLS:
            for target in targets:
                lost, elapsed = asyncio.run(restart_all(target, protocol, members))
                orphaned.add(f"{protocol}, {target.name}", lost)
                clock.add(f"{protocol}, {target.name}", elapsed)
    return [orphaned, clock]


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.rolling", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--ours", action="store_true", help="measure Kohort alone")
    options = parser.parse_args()
    with ExitStack() as stack:
        others = [] if options.ours else [one for one in peers(stack)[0] if one.is_kafka]
        targets = [stack.enter_context(kohort()), *others]
        for table in tables(targets, options.rounds, options.members):
            print(table.as_markdown(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
