"""The proxy: what each fault does to both ends of a connection."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from functools import wraps
from typing import Any

import pytest
from tests.writing import write

from kohort.client.cluster import ClusterClient
from kohort.testing.broker import AsyncBroker, Broker
from kohort.testing.proxy import AsyncProxy, Direction, Proxy


def in_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 60))

    return run


class Echo:
    """A peer that sends back what it gets, and notes it."""

    def __init__(self) -> None:
        self.got = b""
        self._changed = asyncio.Event()
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(100):
                self.got += data
                self._changed.set()
                writer.write(data)
        except ConnectionError:
            pass
        self.ended.set()
        writer.close()

    async def has(self, text: bytes) -> None:
        while not self.got.endswith(text):
            self._changed.clear()
            await self._changed.wait()


class Line:
    """The client's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, text: bytes) -> None:
        self._writer.write(text)

    async def hear(self, text: bytes) -> None:
        assert await self._reader.readexactly(len(text)) == text

    async def ends(self) -> None:
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await self._reader.readexactly(1)

    def is_silent(self) -> bool:
        return not self._reader.at_eof() and not self._reader._buffer  # type: ignore[attr-defined]  # no other way to look without waiting

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def line_to_echo() -> AsyncIterator[tuple[AsyncProxy, Echo, Line]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with AsyncProxy(f"127.0.0.1:{port}") as proxy:
        with closing(await dial(proxy)) as line:
            line.say(b"hello")
            await line.hear(b"hello")
            yield proxy, echo, line
    server.close()


async def dial(proxy: AsyncProxy) -> Line:
    host, port = proxy.bootstrap.split(":")
    return Line(*await asyncio.open_connection(host, int(port)))


@in_time
async def test_what_is_held_arrives_complete_and_in_order_once_it_is_released() -> None:
    async with line_to_echo() as (proxy, echo, line):
        proxy.hold(Direction.BACK)
        line.say(b"one ")
        line.say(b"two")
        await echo.has(b"two")
        assert line.is_silent()
        proxy.release()
        await line.hear(b"one two")


@in_time
async def test_a_cut_ends_both_sides_and_new_connections_work() -> None:
    async with line_to_echo() as (proxy, echo, line):
        assert proxy.connections == 1
        assert proxy.cut() == 1
        await line.ends()
        await echo.ended.wait()
        await proxy.until(lambda: proxy.connections == 0)
        with closing(await dial(proxy)) as again:
            again.say(b"x")
            await again.hear(b"x")
        assert proxy.opened == 2


@in_time
async def test_who_refuses_is_not_there_until_it_is_healed_on_the_same_port() -> None:
    async with line_to_echo() as (proxy, _, line):
        where = proxy.bootstrap
        await proxy.refuse()
        await line.ends()
        with pytest.raises(ConnectionRefusedError):
            await dial(proxy)
        await proxy.heal()
        assert proxy.bootstrap == where
        with closing(await dial(proxy)) as again:
            again.say(b"x")
            await again.hear(b"x")


@in_time
async def test_what_is_dropped_never_comes_and_its_connection_ends_with_the_fault() -> None:
    async with line_to_echo() as (proxy, echo, line):
        proxy.drop(Direction.BACK)
        line.say(b"lost")
        await proxy.until(lambda: proxy.lost == 4)
        assert echo.got.endswith(b"lost")
        assert line.is_silent()
        await proxy.heal()
        await line.ends()


@in_time
async def test_half_open_connections_look_open_to_the_client_alone() -> None:
    async with line_to_echo() as (proxy, echo, line):
        proxy.half_open()
        await echo.ended.wait()
        line.say(b"anybody?")
        with closing(await dial(proxy)) as late:
            late.say(b"hello?")
            await proxy.until(lambda: proxy.connections == 2)
            assert line.is_silent()
            assert late.is_silent()
            await proxy.heal()
            await line.ends()
            await late.ends()
        assert echo.got == b"hello"


@in_time
async def test_slow_lines_deliver_everything() -> None:
    async with line_to_echo() as (proxy, _, line):
        proxy.delay_s, proxy.bytes_per_s = 0.001, 100_000
        line.say(b"x" * 3_000)
        await line.hear(b"x" * 3_000)


@in_time
async def test_a_broker_that_is_not_there_breaks_the_connection() -> None:
    async with AsyncProxy("127.0.0.1:1") as proxy:
        with closing(await dial(proxy)) as line:
            await line.ends()
        assert proxy.opened == 0


@in_time
async def test_clients_of_a_broker_that_advertises_the_proxy_never_go_past_it() -> None:
    async with AsyncProxy() as proxy, AsyncBroker(advertised=proxy.bootstrap) as broker:
        proxy.upstream = broker.bootstrap
        async with ClusterClient(proxy.bootstrap) as cluster:
            await write(cluster, "t", [b"a"])
            (node,) = cluster.metadata.nodes.values()
            assert str(node.address) == proxy.bootstrap
            assert broker.server.connections == proxy.connections


def test_the_same_without_a_loop() -> None:
    with Proxy() as proxy, Broker(advertised=proxy.bootstrap) as broker:
        proxy.lead_to(broker.bootstrap)

        async def talk(clients: int) -> None:
            async with ClusterClient(proxy.bootstrap) as cluster:
                assert cluster.metadata.nodes
                assert proxy.connections == clients

        proxy.slow_down(delay_s=0.001)
        asyncio.run(talk(1))
        proxy.until(lambda: proxy.connections == 0)
        for fault in (proxy.hold, proxy.drop, proxy.half_open, proxy.refuse):
            fault()
            assert proxy.cut() == 0
            proxy.heal()
            asyncio.run(talk(1))
            proxy.until(lambda: proxy.connections == 0)
        proxy.release()
