"""Requests per second and processor time per request, by the compiled generator in ``load/``.

A member joins and sends its request once by hand: that reply, when it is a good one, is what the generator
expects a million times. ``python -m benchmarks.requests`` prints the tables of this module alone.
"""

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tools.peers.fetch import available, load_generator
from tools.peers.pins import Peer

from benchmarks.groups import find, join, make_topic, on_loop, sync
from benchmarks.pipeline import Pipe, connect, request_frame
from benchmarks.rounds import Table
from benchmarks.targets import LOAD_CORE, Target, kohort, peers, pin, settle
from kohort.codec.schema import Message
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

_TOPIC = "commits"
_WARM_S = 0.3  # before each measurement: connections are new
_PATIENCE_S = 30
_groups = itertools.count()


class NotServedError(Exception):
    """A broker does not know this kind of request."""


class Exchange(NamedTuple):
    """What one connection sends again and again, and the reply it must get: whole frames."""

    request: bytes
    reply: bytes


class Measured(NamedTuple):
    """What the generator reports."""

    requests: int
    seconds: float
    processor_seconds: float  # of the broker
    p50_ms: float
    p99_ms: float
    p999_ms: float
    errors: int
    first_error: str

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def processor_us(self) -> float:
        """Processor time of the broker for one request, in microseconds."""
        return 1e6 * self.processor_seconds / self.requests


def generate(
    target: Target, exchanges: list[Exchange], depth: int, seconds: float, authority: Path | None = None
) -> Measured:
    """Run the generator on the core that this process is pinned to; a wrong reply is an error here.

    With an ``authority`` (PEM) it speaks TLS.
    """
    plan = {
        "address": target.bootstrap,
        "pid": target.pid,
        "authority": "" if authority is None else str(authority),
        "depth": depth,
        "warm": _WARM_S,
        "seconds": seconds,
        "connections": [{"request": one.request.hex(), "reply": one.reply.hex()} for one in exchanges],
    }
    done = subprocess.run(
        [str(load_generator())], input=json.dumps(plan), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{target.name}: {done.stderr.strip()}")
    measured = Measured(**json.loads(done.stdout))
    if measured.errors or not measured.requests:
        raise RuntimeError(
            f"{target.name}: {measured.errors} wrong replies of {measured.requests + measured.errors};"
            f" the first one: {measured.first_error}"
        )
    return measured


# What is sent: each makes the exchange of one member.

Prepare = Callable[[Pipe, str], Coroutine[Any, Any, Exchange]]


async def _exchange(
    pipe: Pipe, request: Message, version: int, is_good: Callable[[Message], bool]
) -> Exchange:
    """Send a request until its reply is good; Kafka's coordinator loads for a moment."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            reply = await pipe.call(request, version)
            if is_good(reply):
                return Exchange(request_frame(request, version), pipe.last_frame)
            await asyncio.sleep(0.05)


async def heartbeat(pipe: Pipe, group: str) -> Exchange:
    """A member of a group of its own that is stable."""
    joined = await join(pipe, group)
    await sync(pipe, group, joined)
    request = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    return await _exchange(
        pipe, request, 4, lambda reply: isinstance(reply, HeartbeatResponse) and not reply.error_code
    )


async def commit(pipe: Pipe, group: str) -> Exchange:
    """A group that is known by its offsets alone; one partition in each request."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=_TOPIC, partitions=[partition])]
    )

    def is_good(reply: Message) -> bool:
        return isinstance(reply, OffsetCommitResponse) and not reply.topics[0].partitions[0].error_code

    return await _exchange(pipe, request, 8, is_good)


async def consumer_heartbeat(pipe: Pipe, group: str) -> Exchange:
    """A member of a consumer group (KIP-848) of its own that has its assignment."""
    member_id = f"{group}-member"

    async def beat(**fields: Any) -> ConsumerGroupHeartbeatResponse:  # noqa: ANN401 - fields of the request
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, **fields)
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                reply = await pipe.call(request, 1)
                assert isinstance(reply, ConsumerGroupHeartbeatResponse)
                if not reply.error_code:
                    return reply
                if reply.error_code == 35:  # UNSUPPORTED_VERSION
                    raise NotServedError(reply.error_message)
                await asyncio.sleep(0.05)

    reply = await beat(rebalance_timeout_ms=60_000, subscribed_topic_names=[_TOPIC], topic_partitions=[])
    while reply.assignment is None:
        await asyncio.sleep(0.02)
        reply = await beat(member_epoch=reply.member_epoch, topic_partitions=None)
    owned = [
        TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
        for each in reply.assignment.topic_partitions
    ]
    reply = await beat(member_epoch=reply.member_epoch, topic_partitions=owned)
    steady = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=reply.member_epoch, topic_partitions=None
    )

    def is_good(reply: Message) -> bool:
        return isinstance(reply, ConsumerGroupHeartbeatResponse) and (
            not reply.error_code and reply.assignment is None
        )

    return await _exchange(pipe, steady, 1, is_good)


def exchanges(target: Target, prepare: Prepare, connections: int) -> list[Exchange]:
    """One member for each connection, of new groups: those of the last round are still expected in theirs."""

    async def run() -> list[Exchange]:
        await make_topic(target, _TOPIC)
        pipe = await connect(target.host, target.port)
        made = []
        batch = next(_groups)
        for number in range(connections):
            group = f"{prepare.__name__}-{batch}-{number}"
            await find(pipe, group)
            made.append(await prepare(pipe, group))
        pipe.transport.close()
        return made

    return on_loop(run())


class Load(NamedTuple):
    """A load that is measured."""

    title: str
    prepare: Prepare
    connections: int
    depth: int
    is_durable: bool = False
    note: str = ""

    def measure(self, target: Target, seconds: float) -> Measured:
        return generate(target, exchanges(target, self.prepare, self.connections), self.depth, seconds)


_SYNCS = (
    "Kohort syncs to the disk before it answers; Kafka (one replica) and Kohort with `--fsync-internal never`"
    " leave that to the operating system; kfake keeps nothing."
)
LOADS = (
    Load("Heartbeats, 100 connections, one in flight each", heartbeat, 100, 1),
    Load("Heartbeats, 20 connections, 50 in flight each", heartbeat, 20, 50),
    Load("Heartbeats of consumer groups, 100 connections, one in flight each", consumer_heartbeat, 100, 1),
    Load("Offset commits, 50 connections, one in flight each", commit, 50, 1, True, _SYNCS),
    Load("Offset commits, 500 connections, one in flight each", commit, 500, 1, True, _SYNCS),
)


def tables(load: Load, targets: list[Target], seconds: float, rounds: int) -> list[Table]:
    """Four tables of one load: rate, processor time, and the slow replies."""
    rate = Table(load.title, "per second", load.note)
    processor = Table("The same: processor time of the broker for one request", "µs", higher_is_better=False)
    slow = Table("The same: 99th percentile", "ms", higher_is_better=False)
    slowest = Table("The same: 99.9th percentile", "ms", higher_is_better=False)
    for number in range(rounds + 1):
        for target in list(targets):
            try:
                measured = load.measure(target, seconds)
            except NotServedError:
                if target is targets[0]:
                    return []  # there is nothing to compare the others with
                targets = [each for each in targets if each is not target]
                continue
            if number:  # the first one warms up
                rate.add(target.name, measured.rate)
                processor.add(target.name, measured.processor_us)
                slow.add(target.name, measured.p99_ms)
                slowest.add(target.name, measured.p999_ms)
        settle()
    return [rate, processor, slow, slowest]


def missing() -> str | None:
    """The reason why the generator cannot be built here, if there is one."""
    reason = available(Peer.GO)
    return None if reason is None else f"requests per second ({reason})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.requests", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="", help="measure the loads whose title has this text")
    parser.add_argument("--ours", action="store_true", help="measure Kohort alone")
    options = parser.parse_args()
    with ExitStack() as stack:
        others = [] if options.ours else peers(stack)[0]
        ours = stack.enter_context(kohort())
        relaxed = stack.enter_context(kohort("Kohort, --fsync-internal never", "--fsync-internal", "never"))
        pin(os.getpid(), LOAD_CORE)
        for load in LOADS:
            if options.only in load.title:
                targets = [ours, relaxed, *others] if load.is_durable else [ours, *others]
                for table in tables(load, targets, options.seconds, options.rounds):
                    print(table.as_markdown(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
