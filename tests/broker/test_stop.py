"""Stopping a broker: no client can hold it up, not even one that connects at that moment."""

import asyncio
import contextlib
import socket

import pytest
import uvloop

from kohort.broker.server import Server
from kohort.broker.settings import Settings

DEADLINE_S = 30


@pytest.mark.parametrize("turns", range(5))
def test_a_client_that_connects_meanwhile_is_dropped(turns: int) -> None:
    """The loop accepts a connection in one turn and tells of it in the next; the stop may fall between."""

    async def stop_while_one_connects() -> None:
        server = Server(Settings(port=0))
        address = await server.start()
        with contextlib.ExitStack() as clients:
            clients.enter_context(socket.create_connection(address, DEADLINE_S))
            for _ in range(100):  # until it is known, and more
                await asyncio.sleep(0)
            assert server.connections == 1
            late = clients.enter_context(socket.create_connection(address, DEADLINE_S))
            for _ in range(turns):
                await asyncio.sleep(0)
            await asyncio.wait_for(server.stop(), DEADLINE_S)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(late.recv, 1) == b""
            assert server.connections == 0

    uvloop.run(stop_while_one_connects())
