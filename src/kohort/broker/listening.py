"""Listening sockets that let in everyone who waits.

uvloop's own server accepts one connection in a turn of the loop. While a thousand members of a group talk in
every turn, a thousand others would wait for a thousand turns, and each of them that comes in alone makes
the group rebalance once more.
"""

import asyncio
import logging
import socket
from collections.abc import Callable

from kohort.model.errors import KohortError

logger = logging.getLogger("kohort.listening")

_BACKLOG = 1_024
_AT_ONCE = 256  # accepted in one turn: who is connected already wants to be served, too
_PAUSE_S = 1.0  # after an error of the system, such as too many open files


class Listener:
    """Accepts connections from ``open`` until ``close``; ``make`` makes the protocol of each."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.AbstractServer | None = None
        self._sockets: list[socket.socket] = []
        self._welcoming: set[asyncio.Task[object]] = set()

    async def open(self, host: str, port: int) -> int:
        """Listen on all addresses of a host; the port, which is a free one for 0. Raises ``OSError``."""
        # The loop finds and binds the addresses; the sockets it then has are not used, but copies of them.
        server = await self._loop.create_server(
            self._make, host, port, reuse_address=True, start_serving=False
        )
        self._server = server
        for bound in server.sockets:
            copy = bound.dup()
            self._sockets.append(copy)
            copy.setblocking(False)
            copy.listen(_BACKLOG)
            self._loop.add_reader(copy, self._accept, copy)
        opened: int = self._sockets[0].getsockname()[1]
        return opened

    async def close(self) -> None:
        """Accept nobody any more; whoever has been accepted has met its protocol when this returns."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._welcoming, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                client, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            client.setblocking(False)
            task = self._loop.create_task(self._welcome(client))
            self._welcoming.add(task)
            task.add_done_callback(self._welcoming.discard)

    async def _welcome(self, client: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, client)
        except (OSError, MemoryError):
            client.close()  # it has gone again, or there is no memory for it

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Those who wait are still there when it has become better; asking at once would only spin."""
        logger.error("no connection can be accepted for %g s: %s", _PAUSE_S, error)
        self._loop.remove_reader(listening)
        self._loop.call_later(_PAUSE_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)


def check_advertised(host: str) -> None:
    """Raise KohortError for an address that no client can connect to."""
    from ipaddress import ip_address

    try:
        anywhere = ip_address(host).is_unspecified
    except ValueError:  # a name
        anywhere = False
    if anywhere:
        raise KohortError(
            f"clients cannot be sent to {host}: it stands for every address of this machine",
            hint="name the one that clients use: --advertise HOST:PORT, as in "
            f"--listen {host}:9092 --advertise broker.example:9092",
        )
