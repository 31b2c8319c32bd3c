"""Listening sockets that let in everyone who waits.

uvloop's own server accepts one connection in a turn of the loop. While a thousand members of a group talk in
every turn, a thousand others would wait for a thousand turns, and each of them that comes in alone makes
the group rebalance once more.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from kohort.broker.login_limits import (
    MOST_UNFINISHED,
    MOST_UNFINISHED_OF_ONE,
    ArrivalRate,
    ConnectionPlace,
    network_of,
)
from kohort.log.background import describe
from kohort.model.errors import KohortError

logger = logging.getLogger("kohort.listening")

_BACKLOG = 1_024
_AT_ONCE = 256  # accepted in one turn: who is connected already wants to be served, too
_AT_ONCE_TLS = 16  # a handshake takes half a millisecond of the loop, or more
_HANDSHAKE_S = 5.0
_SHUTDOWN_S = 1.0
_PAUSE_S = 1.0  # after an error of the system, such as too many open files


class PortListener:
    """Has a port from ``bind`` on, and accepts connections from ``open`` until ``close``.

    ``make`` makes the protocol of each, which leaves its place when it is over. A host that ``admit`` gives
    no place is closed at once. With ``tls`` each connection begins with a handshake in the context that is
    current then.
    """

    def __init__(
        self,
        make: Callable[[ConnectionPlace], asyncio.Protocol],
        *,
        admit: Callable[[str], ConnectionPlace | None] = lambda host: ConnectionPlace(),
        tls: Callable[[], ssl.SSLContext] | None = None,
        failed: Callable[[str, OSError], None] | None = None,
    ) -> None:
        self._make = make
        self._admit = admit
        self._tls = tls
        self._failed = failed
        self._at_once = _AT_ONCE if tls is None else _AT_ONCE_TLS
        self._handshakes: dict[asyncio.Task[bool], str] = {}  # oldest first, with the peer's network
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.AbstractServer | None = None
        self._sockets: list[socket.socket] = []
        self._welcoming: set[asyncio.Task[bool]] = set()
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}  # for their turn
        self.rate: ArrivalRate | None = None

    async def bind(self, host: str, port: int) -> int:
        """Take a port on all addresses of a host, a free one for 0; returns it. Raises ``OSError``."""
        # The loop finds and binds the addresses; the sockets it then has are not used, but copies of them.
        server = await self._loop.create_server(
            asyncio.Protocol, host, port, reuse_address=True, start_serving=False
        )
        self._server = server
        for bound in server.sockets:
            copy = bound.dup()
            self._sockets.append(copy)
            copy.setblocking(False)
        opened: int = self._sockets[0].getsockname()[1]
        return opened

    def open(self) -> None:
        """Accept connections from now on. Raises ``OSError`` if another process listens there."""
        for bound in self._sockets:
            bound.listen(_BACKLOG)
            self._loop.add_reader(bound, self._accept, bound)

    async def close(self) -> None:
        """Accept no more; every accepted connection has met its protocol when this returns."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()
        if self._server is not None:
            self._server.close()
        for client, turn in self._waiting.items():
            turn.cancel()
            client.close()
        self._waiting.clear()
        for handshake in self._handshakes:
            handshake.cancel()
        await asyncio.gather(*self._welcoming, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._at_once):
            try:
                client, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            client.setblocking(False)
            place = self._admit(peer[0])
            if place is None:
                client.close()
                continue
            wait = 0.0 if self.rate is None else self.rate.wait(peer[0], self._loop.time())
            if wait is None:
                place.leave()
                client.close()
            elif wait:
                self._waiting[client] = self._loop.call_later(wait, self._begin, client, peer[0], place)
            else:
                self._begin(client, peer[0], place)

    def _begin(self, client: socket.socket, host: str, place: ConnectionPlace) -> None:
        self._waiting.pop(client, None)
        make = partial(self._make, place)
        if self._tls is None:
            task = self._loop.create_task(self._welcome(client, make))
        else:
            task = self._loop.create_task(self._shake_hands(client, host, make, self._tls()))
            self._count_handshake(task, host)
        self._welcoming.add(task)
        task.add_done_callback(partial(self._welcomed, client, place))

    def _welcomed(self, client: socket.socket, place: ConnectionPlace, task: asyncio.Task[bool]) -> None:
        self._welcoming.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a bug; the place and the socket must not stay with it
            logger.error("a connection could not be opened: %s", describe(error))
        if task.cancelled() or error is not None or not task.result():
            client.close()
            place.leave()

    def _count_handshake(self, task: asyncio.Task[bool], host: str) -> None:
        """Peers that never finish must not keep others out: the oldest gives way."""
        network = network_of(host)
        of_one = [other for other, peer in self._handshakes.items() if peer == network]
        if len(of_one) >= MOST_UNFINISHED_OF_ONE:
            self._give_up(of_one[0])
        elif len(self._handshakes) >= MOST_UNFINISHED:
            self._give_up(next(iter(self._handshakes)))
        self._handshakes[task] = network
        task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    def _give_up(self, handshake: asyncio.Task[bool]) -> None:
        del self._handshakes[handshake]
        handshake.cancel()

    async def _shake_hands(
        self,
        client: socket.socket,
        host: str,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
    ) -> bool:
        try:
            await self._loop.connect_accepted_socket(
                make,
                client,
                ssl=context,
                ssl_handshake_timeout=_HANDSHAKE_S,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except (OSError, MemoryError) as error:  # errors of TLS and of time are errors of the system here
            if self._failed is not None and isinstance(error, OSError):
                self._failed(host, error)
            return False
        return True

    async def _welcome(self, client: socket.socket, make: Callable[[], asyncio.Protocol]) -> bool:
        try:
            await self._loop.connect_accepted_socket(make, client)
        except (OSError, MemoryError):
            return False  # it has gone again, or there is no memory for it
        return True

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
