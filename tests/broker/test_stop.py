"""Stopping a broker: no client can hold it up, not even one that connects at that moment."""

import asyncio
import contextlib
import socket

import pytest
import uvloop
from tests.broker.asking import metadata
from tests.broker.raw import Raw

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
            known = clients.enter_context(Raw(str(address)))
            assert (await asyncio.to_thread(metadata, known)).brokers
            late = clients.enter_context(socket.create_connection(address, DEADLINE_S))
            for _ in range(turns):  # what is tested: any place for the stop between accepting and telling
                await asyncio.sleep(0)
            await asyncio.wait_for(server.stop(), DEADLINE_S)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(late.recv, 1) == b""
            assert server.connections == 0

    uvloop.run(stop_while_one_connects())
