"""Who waits for a connection is let in, however much there is to do for those who are in already."""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any, cast

import pytest

from kohort.broker import listening
from kohort.broker.listening import PortListener
from kohort.broker.login_limits import ConnectionPlace

Loop = Callable[[], asyncio.AbstractEventLoop]
CROWD = 100
FEW, MANY = CROWD // 5, 1_000_000


@pytest.fixture(params=["asyncio", "uvloop"])
def factory(request: pytest.FixtureRequest) -> Loop:
    return cast(Loop, pytest.importorskip(request.param).new_event_loop)


class Guests(list[asyncio.Transport]):
    """Everyone who has been let in."""

    def make(self, place: ConnectionPlace) -> asyncio.Protocol:
        guests = self

        class Guest(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                guests.append(cast(asyncio.Transport, transport))

        return Guest()

    def send_home(self) -> None:
        for transport in self:
            transport.abort()


async def within(turns: int, condition: Callable[[], bool]) -> bool:
    """Whether something comes true in at most so many turns of the loop."""
    for _ in range(turns):
        if condition():
            return True
        await asyncio.sleep(0)
    return False


def run(factory: Loop, story: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(story)


def crowd(stack: ExitStack, port: int, count: int = CROWD) -> None:
    """So many connections that the system has made, and nobody has accepted yet."""
    for _ in range(count):
        stack.enter_context(socket.create_connection(("127.0.0.1", port)))


def test_a_crowd_is_let_in_within_a_few_turns_of_the_loop(factory: Loop) -> None:
    async def story() -> None:
        guests = Guests()
        listener = PortListener(guests.make)
        with ExitStack() as stack:
            port = await listener.bind("127.0.0.1", 0)
            listener.open()
            crowd(stack, port)
            assert await within(FEW, lambda: len(guests) == CROWD)
            await listener.close()
            guests.send_home()

    run(factory, story())


def test_who_was_accepted_is_known_when_listening_is_over(
    factory: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted: list[socket.socket] = []
    accept = socket.socket.accept

    def counted(self: socket.socket) -> tuple[socket.socket, Any]:
        found = accept(self)
        accepted.append(found[0])
        return found

    async def story() -> None:
        guests = Guests()
        listener = PortListener(guests.make)
        with ExitStack() as stack:
            port = await listener.bind("127.0.0.1", 0)
            listener.open()
            monkeypatch.setattr(socket.socket, "accept", counted)
            crowd(stack, port, 3)
            assert await within(MANY, lambda: bool(accepted))
            await listener.close()
            assert len(guests) == len(accepted)
            guests.send_home()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

    run(factory, story())


def test_a_system_without_room_is_asked_again_later(
    factory: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept = socket.socket.accept
    failures = iter([OSError(errno.EMFILE, "Too many open files"), ConnectionAbortedError()])

    def failing(self: socket.socket) -> tuple[socket.socket, Any]:
        for failure in failures:
            raise failure
        return accept(self)

    async def story() -> None:
        guests = Guests()
        listener = PortListener(guests.make)
        with ExitStack() as stack:
            port = await listener.bind("127.0.0.1", 0)
            listener.open()
            monkeypatch.setattr(socket.socket, "accept", failing)
            crowd(stack, port, 2)
            assert await within(MANY, lambda: len(guests) == 2)
            await listener.close()
            guests.send_home()

    monkeypatch.setattr(listening, "_PAUSE_S", 0)
    run(factory, story())
    assert "no connection can be accepted for 0 s: [Errno 24] Too many open files" in caplog.text


def test_listening_that_ends_in_such_a_pause_stays_ended(
    factory: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[socket.socket] = []

    def failing(self: socket.socket) -> tuple[socket.socket, Any]:
        refused.append(self)
        raise OSError(errno.EMFILE, "Too many open files")

    async def story() -> None:
        listener = PortListener(Guests().make)
        with ExitStack() as stack:
            port = await listener.bind("127.0.0.1", 0)
            listener.open()
            monkeypatch.setattr(socket.socket, "accept", failing)
            crowd(stack, port, 1)
            assert await within(MANY, lambda: bool(refused))
            await listener.close()
            resumed = asyncio.Event()
            asyncio.get_running_loop().call_later(0.002, resumed.set)
            await resumed.wait()
            assert len(refused) == 1

    monkeypatch.setattr(listening, "_PAUSE_S", 0.001)
    run(factory, story())


def test_a_connection_that_cannot_be_made_leaves_its_place(
    factory: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    left: list[str] = []

    def make(place: ConnectionPlace) -> asyncio.Protocol:
        raise LookupError("no protocol")

    async def story() -> None:
        listener = PortListener(make, admit=lambda host: ConnectionPlace(lambda: left.append(host)))
        port = await listener.bind("127.0.0.1", 0)
        listener.open()
        with ExitStack() as stack:
            crowd(stack, port, 1)
            assert await within(MANY, lambda: bool(left))
        await listener.close()

    run(factory, story())
    assert left == ["127.0.0.1"]
    assert "a connection could not be opened: no protocol" in caplog.text
