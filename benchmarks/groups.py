"""Members made of raw requests, and everybody joining at once, in a classic or a consumer group (KIP-848)."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from benchmarks.pipeline import Pipe, connect
from benchmarks.targets import Target
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_SUBSCRIPTION = bytes.fromhex("0000000000010005") + b"bench" + bytes.fromhex("ffffffff")
_T = TypeVar("_T")
_PATIENCE_S = 120
_TRY_AGAIN = (14, 15, 16)  # the coordinator loads, is not there yet, or moves


def on_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run on uvloop, which the load generator needs to keep ahead of the broker."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def find(pipe: Pipe, group: str) -> int:
    """The port of the coordinator. Asks until there is one: Kafka creates its topic in the background."""
    for _ in range(600):
        found = await pipe.call(FindCoordinatorRequest(key=group), 2)
        assert isinstance(found, FindCoordinatorResponse)
        if found.error_code == 0:
            return found.port
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


async def topic_partitions(target: Target, name: str, partitions: int) -> None:
    """Make a topic, and wait until the broker serves all its partitions."""
    await make_topic(target, name, partitions)
    pipe = await connect(target.host, target.port)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            reply = await pipe.call(asked, 9)
            assert isinstance(reply, MetadataResponse)
            led = [one for one in reply.topics[0].partitions if one.leader_id >= 0]
            if len(led) == partitions:
                break
            await asyncio.sleep(0.05)
    pipe.transport.close()


async def make_topic(target: Target, name: str, partitions: int = 1) -> None:
    pipe = await connect(target.host, target.port)
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    await pipe.call(CreateTopicsRequest(topics=[topic]), 4)
    pipe.transport.close()


_storms = itertools.count()


def storm(target: Target, members: int) -> float:
    """Milliseconds until ``members`` that join one group at once are all in one generation, with assignments.

    Without an initial delay the first generation starts with the members that were there; the others make it
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


class _ConsumerMember:
    """A member of a consumer group that takes and gives up what it is asked to, at once."""

    def __init__(self, pipe: Pipe, group: str, name: str) -> None:
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.is_settled = False  # it owns what the last reply gave it, and the broker knows
        self._pipe = pipe
        self._group = group
        self._name = name

    @property
    def partitions(self) -> int:
        return sum(len(topic.partitions) for topic in self.owned)

    async def join(self, topic: str) -> None:
        while self.epoch == 0:
            await self._beat(rebalance_timeout_ms=60_000, subscribed_topic_names=[topic], topic_partitions=[])

    async def go_on(self) -> None:
        await self._beat(member_epoch=self.epoch, topic_partitions=None if self.is_settled else self.owned)

    async def _beat(self, **fields: Any) -> None:  # noqa: ANN401 - fields of the request
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self._name, **fields)
        reply = await self._pipe.call(request, 1)
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        if reply.error_code in _TRY_AGAIN:
            await asyncio.sleep(0.05)
            return
        assert not reply.error_code, reply
        self.epoch = reply.member_epoch
        self.is_settled = True
        if reply.assignment is not None:
            given = reply.assignment.topic_partitions
            self.owned = [TopicPartitions(topic_id=one.topic_id, partitions=one.partitions) for one in given]
            self.is_settled = False


def consumer_storm(target: Target, members: int) -> float:
    """Milliseconds until ``members`` that join a consumer group at once own a partition each, in one epoch.

    Each goes on with a heartbeat 20 ms after the last reply.
    """

    async def run() -> float:
        topic = f"storm-{members}"
        await topic_partitions(target, topic, members)
        group = f"consumer-storm-{next(_storms)}"
        pipes = [await connect(target.host, target.port) for _ in range(members)]
        await find(pipes[0], group)
        everybody = [_ConsumerMember(pipe, group, f"m-{number}") for number, pipe in enumerate(pipes)]
        complete = asyncio.Event()

        def is_stable() -> bool:
            newest = everybody[0].epoch
            return all(one.is_settled and one.epoch == newest and one.partitions == 1 for one in everybody)

        async def member(one: _ConsumerMember) -> None:
            await one.join(topic)
            while not complete.is_set():
                await one.go_on()
                if is_stable():
                    complete.set()
                await asyncio.sleep(0.02)

        started = time.perf_counter()
        tasks = [asyncio.ensure_future(member(one)) for one in everybody]
        waiting = asyncio.ensure_future(complete.wait())
        done, _ = await asyncio.wait(
            [waiting, *tasks], timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
        )
        elapsed = time.perf_counter() - started
        for task in (waiting, *tasks):
            task.cancel()
        for pipe in pipes:
            pipe.transport.close()
        await asyncio.gather(waiting, *tasks, return_exceptions=True)
        for task in done - {waiting}:
            task.result()
        if not complete.is_set():
            raise TimeoutError(f"{members} members of {group} have not settled in {_PATIENCE_S} s")
        return 1_000 * elapsed

    return on_loop(run())
