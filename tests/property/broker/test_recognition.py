"""A heartbeat that a connection has sent before is answered as if it had not been seen."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.broker.grouping import commit_request, heartbeat_request, join_request, sync_request
from tests.fault.arena import Arena, Peer

from kohort.broker.connection import Connection
from kohort.broker.dispatch import Dispatch
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.testing.intercept import Interceptions, answer, rule
from kohort.wire.apis import ApiKey
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

CONNECTIONS = 3
_TURNS = 20  # of the loop: what can be answered without further requests is answered then

MakeRequest = Callable[[str], Message]
"""A request for a group of this name."""


class Said(NamedTuple):
    """What a client sends on one of the connections: ``copies`` of a request, in two reads if it is cut."""

    connection: int
    make: MakeRequest
    version: int
    copies: int = 1
    cut: int = 0


class Passed(NamedTuple):
    """Time goes on."""

    milliseconds: int


class Intercepted(NamedTuple):
    """A rule about heartbeats is set or dropped."""

    is_on: bool


class Reloaded(NamedTuple):
    """The coordinator loses what it has in memory, and reads its log again."""


Step = Said | Passed | Intercepted | Reloaded


def member_id(number: int) -> str:
    return f"arena-{UUID(int=number)}"


def heartbeat(number: int, generation: int) -> MakeRequest:
    return lambda group: heartbeat_request(member_id(number), generation, group=group)


def join(number: int) -> MakeRequest:
    return lambda group: join_request(member_id(number) if number else "", group=group)


def sync(number: int, generation: int) -> MakeRequest:
    who = member_id(number)
    return lambda group: sync_request(who, generation, {who: b"all"}, group=group)


def commit(number: int, generation: int) -> MakeRequest:
    return lambda group: commit_request((0, 5), member=(member_id(number), generation), group=group)


def leave(number: int) -> MakeRequest:
    gone = MemberIdentity(member_id=member_id(number))
    return lambda group: LeaveGroupRequest(group_id=group, members=[gone])


numbers = st.integers(1, 3)
generations = st.integers(1, 3)
connections = st.integers(0, CONNECTIONS - 1)


once, uncut = st.just(1), st.just(0)


def said(
    requests: st.SearchStrategy[MakeRequest],
    versions: st.SearchStrategy[int],
    copies: st.SearchStrategy[int] = once,
    cuts: st.SearchStrategy[int] = uncut,
) -> st.SearchStrategy[Said]:
    return st.builds(Said, connections, requests, versions, copies, cuts)


HEARTBEATS = said(
    st.builds(heartbeat, numbers, generations),
    st.sampled_from((0, 3, 4, 4)),
    copies=st.sampled_from((1, 1, 2, 7)),
    cuts=st.sampled_from((0, 0, 3, 11, 40, 80, 100)),
)
STEPS: st.SearchStrategy[Step] = st.one_of(
    HEARTBEATS,
    HEARTBEATS,
    said(st.builds(join, st.integers(0, 3)), st.just(3)),
    said(st.builds(sync, numbers, generations), st.just(3)),
    said(st.builds(commit, numbers, generations), st.just(8)),
    said(st.builds(leave, numbers), st.just(4)),
    st.builds(Passed, st.sampled_from((1_000, 6_000, 40_000))),
    st.builds(Intercepted, st.booleans()),
    st.builds(Reloaded),
)
STABLE: list[Step] = [Said(0, join(0), 3), Said(0, sync(1, 1), 3), Said(0, heartbeat(1, 1), 4)]
"""Member 1 is alone in generation 1; its heartbeat has been seen."""


def refuse_heartbeats() -> Interceptions:
    rules = Interceptions()
    refused = HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rules.add(rule(answer(refused), api="Heartbeat"))
    return rules


async def conversation(arena: Arena, group: str, steps: list[Step]) -> list[list[bytes]]:
    """What comes back on each connection, after each step."""
    server = arena.server
    peers = [Peer(server) for _ in range(CONNECTIONS)]
    heard = []
    for step in steps:
        match step:
            case Said(connection, make, version, copies, cut):
                frames = arena.frames(make(group), version, copies)
                for part in (frames[:cut], frames[cut:]) if cut else (frames,):
                    peers[connection].send(part)
            case Passed(milliseconds):
                arena.advance(milliseconds)
            case Intercepted(is_on):
                server.dispatch.interceptor = refuse_heartbeats() if is_on else None
            case Reloaded():
                for runtime in server.broker.coordinator._groups.partitions:
                    runtime._reload(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        heard.append([peer.take() for peer in peers])
    for peer in peers:
        peer.hang_up()
    server.dispatch.interceptor = None
    await server.broker.coordinator.ready()
    return heard


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Arena, Arena]]:
    """One that recognises frames, and one that reads each of them."""
    with Arena() as recognising, Arena() as reading:
        reading.server.dispatch._remember = lambda *_: None
        yield recognising, reading


_groups = itertools.count()


def play(arena: Arena, group: str, steps: list[Step]) -> list[list[bytes]]:
    """The conversation, in a group whose members get the ids 1, 2, 3."""
    numbers = itertools.count(1)
    arena.number_from(1)
    with patch("kohort.broker.handlers.join_group.uuid.uuid4", lambda: UUID(int=next(numbers))):
        return arena.run(lambda: conversation(arena, group, [*STABLE, *steps]))


@example([Intercepted(is_on=True), Said(0, heartbeat(1, 1), 4)])
@given(steps=st.lists(STEPS, max_size=25))
def test_a_heartbeat_that_was_seen_before_is_answered_as_a_new_one(
    brokers: tuple[Arena, Arena], steps: list[Step]
) -> None:
    group = f"group-{next(_groups)}"
    seen, unseen = (play(arena, group, steps) for arena in brokers)
    assert seen == unseen
    assert brokers[0].bugs() == brokers[1].bugs() == []


def test_a_heartbeat_that_was_seen_before_is_not_read_again(brokers: tuple[Arena, Arena]) -> None:
    read: list[int] = []
    arena = brokers[0]
    serve = Dispatch.serve

    def count(dispatch: Dispatch, frame: bytes, connection: Connection) -> object:
        read.append(int.from_bytes(frame[:2], "big"))
        return serve(dispatch, frame, connection)

    with patch.object(Dispatch, "serve", count):
        again: list[Step] = [Said(0, heartbeat(1, 1), 4, copies=50)]
        play(arena, f"group-{next(_groups)}", again)
    assert read.count(ApiKey.HEARTBEAT) == 1
