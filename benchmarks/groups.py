"""What a coordinator is asked most: heartbeats, durable commits, and everybody joining at once."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from benchmarks.pipeline import Pipe, connect, hammer, request_frame
from benchmarks.targets import Target
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_SUBSCRIPTION = bytes.fromhex("0000000000010005") + b"bench" + bytes.fromhex("ffffffff")
_T = TypeVar("_T")


def on_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run on uvloop, which the load generator needs to keep ahead of the broker."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def find(pipe: Pipe, group: str) -> None:
    """Ask for the coordinator until there is one: Kafka creates its topic in the background."""
    for _ in range(600):
        found = await pipe.call(FindCoordinatorRequest(key=group), 2)
        assert isinstance(found, FindCoordinatorResponse)
        if found.error_code == 0:
            return
        await asyncio.sleep(0.05)
    raise RuntimeError(f"no coordinator for {group}")


def _join(group: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
    )


async def join(pipe: Pipe, group: str, member_id: str = "") -> JoinGroupResponse:
    """Join as a modern client does: first for an id, then for real; again while the group loads."""
    while True:
        reply = await pipe.call(_join(group, member_id), 5)
        assert isinstance(reply, JoinGroupResponse)
        if reply.error_code == 0:
            return reply
        member_id = reply.member_id or member_id
        if reply.error_code != 79:  # not "member id required": wait for the coordinator
            await asyncio.sleep(0.05)


async def sync(pipe: Pipe, group: str, joined: JoinGroupResponse) -> SyncGroupResponse:
    is_leader = joined.leader == joined.member_id
    reply = await pipe.call(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=member.member_id, assignment=b"\0\0\0\0\0\0\xff\xff\xff\xff"
                )
                for member in (joined.members if is_leader else [])
            ],
        ),
        3,
    )
    assert isinstance(reply, SyncGroupResponse)
    return reply


async def _member(target: Target, group: str) -> tuple[Pipe, JoinGroupResponse]:
    pipe = await connect(target.host, target.port)
    await find(pipe, group)
    joined = await join(pipe, group)
    await sync(pipe, group, joined)
    return pipe, joined


_batches = itertools.count()


def heartbeats(target: Target, connections: int, depth: int, seconds: float) -> float:
    """Heartbeats answered per second, one member of a group of its own on each connection."""

    async def run() -> float:
        pipes = []
        batch = next(_batches)  # new groups each time: the members of the last round are still expected there
        for number in range(connections):
            group = f"beat-{batch}-{number}"
            pipe, joined = await _member(target, group)
            beat = HeartbeatRequest(
                group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
            )
            pipes.append((pipe, request_frame(beat, 4)))
        rate = await hammer(pipes, depth, seconds)
        for pipe, _ in pipes:
            pipe.transport.close()
        return rate

    return on_loop(run())


def _commit(group: str) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name="commits",
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
            )
        ],
    )


async def make_topic(target: Target, name: str, partitions: int = 1) -> None:
    pipe = await connect(target.host, target.port)
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    await pipe.call(CreateTopicsRequest(topics=[topic]), 4)
    pipe.transport.close()


def commits(target: Target, connections: int, seconds: float) -> tuple[float, float]:
    """Commits acknowledged per second, one in flight on each connection; and the 99th percentile in ms."""

    async def run() -> tuple[float, float]:
        await make_topic(target, "commits")
        latencies: list[float] = []
        stop_at = 0.0

        async def committer(number: int) -> None:
            pipe = pipes[number]
            request = _commit(f"commit-{number}")
            while time.perf_counter() < stop_at:
                started = time.perf_counter()
                reply = await pipe.call(request, 8)
                latencies.append(time.perf_counter() - started)
                assert isinstance(reply, OffsetCommitResponse)
                assert reply.topics[0].partitions[0].error_code == 0

        pipes = [await connect(target.host, target.port) for _ in range(connections)]
        for number, pipe in enumerate(pipes):
            await find(pipe, f"commit-{number}")
        while True:  # Kafka's coordinator loads for a moment
            reply = await pipes[0].call(_commit("commit-0"), 8)
            assert isinstance(reply, OffsetCommitResponse)
            if reply.topics[0].partitions[0].error_code == 0:
                break
            await asyncio.sleep(0.05)
        started = time.perf_counter()
        stop_at = started + seconds
        await asyncio.gather(*(committer(number) for number in range(connections)))
        rate = len(latencies) / (time.perf_counter() - started)
        latencies.sort()
        return rate, 1_000 * latencies[int(len(latencies) * 0.99)]

    return on_loop(run())


_storms = itertools.count()


def storm(target: Target, members: int) -> float:
    """Milliseconds until ``members`` that join one group at once are all in one generation, with assignments.

    Without an initial delay the first generation starts with whoever was there; the others make it
    start again. Members learn that from heartbeats, here every 20 ms.
    """

    async def run() -> float:
        group = f"storm-{next(_storms)}"
        pipes = [await connect(target.host, target.port) for _ in range(members)]
        await find(pipes[0], group)
        synced: Counter[int] = Counter()
        complete = asyncio.Event()
        started = time.perf_counter()

        async def member(pipe: Pipe) -> None:
            member_id = ""
            while True:
                joined = await join(pipe, group, member_id)
                member_id = joined.member_id
                if (await sync(pipe, group, joined)).error_code == 0:
                    synced[joined.generation_id] += 1
                    if synced[joined.generation_id] == members:
                        complete.set()
                    await _until_rebalance(pipe, group, joined)

        tasks = [asyncio.ensure_future(member(pipe)) for pipe in pipes]
        await complete.wait()
        elapsed = time.perf_counter() - started
        for task, pipe in zip(tasks, pipes, strict=True):
            task.cancel()
            pipe.transport.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        return 1_000 * elapsed

    return on_loop(run())


async def _until_rebalance(pipe: Pipe, group: str, joined: JoinGroupResponse) -> None:
    beat = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    while True:
        reply = await pipe.call(beat, 4)
        assert isinstance(reply, HeartbeatResponse)
        if reply.error_code:
            return
        await asyncio.sleep(0.02)
