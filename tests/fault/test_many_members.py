"""Crowds: members that join all at once, and members that join and vanish."""

import asyncio
import resource
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.testing.broker import AsyncBroker
from kohort.testing.intercept import watch
from kohort.wire.apis import api_spec
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

R = TypeVar("R", bound=Message)
GROUP = "crowd"
DELAY_MS = 3_000


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A broker in a process of its own."""
    settings = [
        f"group.initial.rebalance.delay.ms={DELAY_MS}",
        "group.min.session.timeout.ms=100",
        "message.max.bytes=16777216",  # the record of so large a group is larger than the default
    ]
    command = [sys.executable, "-m", "kohort.cli.main", "serve", "--listen", "127.0.0.1:0"]
    options = [part for setting in settings for part in ("--set", setting)]
    with subprocess.Popen(
        [*command, "--data", str(tmp_path), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().split()[-1].rpartition(":")
        try:
            yield host, int(port)
        finally:
            process.terminate()
            assert process.wait(60) == 0


class Caller:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: tuple[str, int]) -> "Caller":
        return cls(*await asyncio.open_connection(*address))

    def send(self, request: Message, version: int) -> None:
        assert request.api_key is not None
        header = struct.pack(">hhih", request.api_key, version, 1, 0)
        header += b"\0" if api_spec(request.api_key).is_flexible(version) else b""
        body = header + encode(request, version)
        self.writer.write(struct.pack(">i", len(body)) + body)

    async def call(self, request: Message, version: int, expect: type[R]) -> R:
        self.send(request, version)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        assert request.api_key is not None
        tags = 1 if api_spec(request.api_key).response_header_is_flexible(version) else 0
        return decode(expect, version, frame, 4 + tags)


def joining(member_id: str = "", session_ms: int = 60_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=120_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
    )


async def join_and_sync(caller: Caller) -> tuple[JoinGroupResponse, SyncGroupResponse]:
    """The two-step join of a modern client, and what follows."""
    first = await caller.call(joining(), 5, JoinGroupResponse)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = await caller.call(joining(first.member_id), 5, JoinGroupResponse)
    assert joined.error_code == 0
    shares = [
        SyncGroupRequestAssignment(member_id=member.member_id, assignment=member.member_id.encode())
        for member in joined.members
    ]
    request = SyncGroupRequest(
        group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id, assignments=shares
    )
    return joined, await caller.call(request, 3, SyncGroupResponse)


async def describe(address: tuple[str, int]) -> tuple[str, int]:
    caller = await Caller.connect(address)
    reply = await caller.call(DescribeGroupsRequest(groups=[GROUP]), 5, DescribeGroupsResponse)
    caller.writer.close()
    return reply.groups[0].group_state, len(reply.groups[0].members)


def crowd(address: tuple[str, int], members: int) -> None:
    async def run() -> None:
        scout = await Caller.connect(address)
        await scout.call(FindCoordinatorRequest(key=GROUP), 2, api_spec(10).response_class)
        callers = [await Caller.connect(address) for _ in range(members)]
        results = await asyncio.gather(*(join_and_sync(caller) for caller in callers))
        assert {joined.generation_id for joined, _ in results} == {1}
        assert (
            sum(len(joined.members) for joined, _ in results) == members
        )  # the leader, and only it, has the list
        assert all(synced.error_code == 0 for _, synced in results)
        assert all(synced.assignment == joined.member_id.encode() for joined, synced in results)
        assert await describe(address) == ("Stable", members)
        for caller in (scout, *callers):
            caller.writer.close()

    asyncio.run(run())


@pytest.mark.slow
def test_a_thousand_members_that_join_at_once_make_one_generation(address: tuple[str, int]) -> None:
    crowd(address, 1_000)


@pytest.mark.soak
def test_ten_thousand_members_that_join_at_once_make_one_generation(address: tuple[str, int]) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 12_000:
        pytest.skip("this process may not open 12,000 files (ulimit -n)")
    crowd(address, 10_000)


@pytest.mark.slow
def test_members_that_join_and_vanish_leave_nothing_behind() -> None:
    """Half of them hang up with an id in hand, half while they wait for the others."""

    async def run() -> None:
        settings = {"group.min.session.timeout.ms": 100, "offsets.topic.num.partitions": 1}
        async with AsyncBroker(virtual_time=True, configs=settings) as broker:
            host, _, port = broker.bootstrap.rpartition(":")
            address = host, int(port)
            scout = await Caller.connect(address)
            await scout.call(FindCoordinatorRequest(key=GROUP), 2, api_spec(10).response_class)
            joins = broker.intercept(watch, api="JoinGroup")
            for number in range(200):
                caller = await Caller.connect(address)
                first = await caller.call(joining(session_ms=200), 5, JoinGroupResponse)
                if number % 2:
                    caller.send(joining(first.member_id, session_ms=200), 5)
                    await caller.writer.drain()
                caller.writer.close()
            scout.writer.close()
            await broker.server.all_closed()
            assert len(joins.seen) == 300
            assert await describe(address) == ("PreparingRebalance", 100)
            assert broker.clock is not None
            broker.clock.advance(DELAY_MS)  # the initial delay passes: a generation of nobody
            broker.clock.advance(500)  # and no one is heard within a session
            assert (await describe(address))[1] == 0

    asyncio.run(run())
