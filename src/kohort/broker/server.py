"""A running broker: opens its data, listens, and shuts everything down in order."""

import asyncio
import logging
import os
from typing import NamedTuple

from kohort.broker.broker import Broker
from kohort.broker.clock import Clock, RealClock
from kohort.broker.config_values import check_start_configs
from kohort.broker.connection import Connection
from kohort.broker.dispatch import Dispatch
from kohort.broker.handlers import request_limits
from kohort.broker.listening import Listener, check_advertised
from kohort.broker.maintenance import Maintenance
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.log.disk import Disk
from kohort.model.errors import KohortError
from kohort.wire.framing import FrameBuffer

logger = logging.getLogger("kohort.server")

_IDLE_CHECK_S = 30.0  # at most; half of the time a connection may be idle, if that is shorter


class Address(NamedTuple):
    """Where a broker can be reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Server:
    """One broker with its listening socket. ``start`` and ``stop`` are called once each, on one loop."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        self._settings = settings
        self._limits = request_limits(settings.max_produce_frame)
        self._clock = clock or RealClock()
        self._disk = disk
        self._connections: set[Connection] = set()
        self._nobody = asyncio.Event()  # set while no client is connected

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def all_closed(self) -> None:
        """Wait until no client is connected."""
        await self._nobody.wait()

    async def start(self) -> Address:
        """Open the data, listen, and return the address that clients get."""
        settings = self._settings
        check_start_configs(settings.overrides)
        check_advertised(settings.advertised_host or settings.host)
        catalog, storage = await open_data(settings, self._disk)
        try:
            self.broker = Broker(settings, catalog, storage, self._clock)
            self.broker.start()
            for repair in storage.take_repairs():
                logger.warning("recovered %s: %s", repair.directory, repair.what)
            self.dispatch = Dispatch(self.broker)
            address = await self._listen()
        except BaseException:
            if hasattr(self, "broker"):  # it may be loading groups already
                await self.broker.stop_coordinating()
            await storage.close(started=False)
            raise
        self._maintenance = Maintenance(self.broker)
        self._maintenance.start()
        self._idle_check = self._check_idle_later()
        return address

    async def stop(self) -> None:
        """Stop listening, drop the connections, end the background work, close the data cleanly."""
        self._idle_check.cancel()
        await self._listener.close()
        for connection in list(self._connections):
            connection.abort()
        if self._connections:
            await self.all_closed()
        await self._maintenance.stop()
        await self.broker.stop_coordinating()
        await self.dispatch.drain()
        self.broker.budget.close()
        await self.broker.stop()

    async def _listen(self) -> Address:
        settings = self._settings
        self._listener = Listener(self._connect)
        try:
            port = await self._listener.open(settings.host, settings.port)
        except OSError as error:
            number = error.errno or 0  # those of name resolution are negative, and nothing to strerror
            reason = os.strerror(number).lower() if number > 0 else error.strerror or str(error)
            raise KohortError(
                f"cannot listen on {settings.host}:{settings.port}: {reason}",
                hint="choose another address or port; port 0 picks a free one",
            ) from error
        self.broker.advertised_port = settings.advertised_port or port
        return Address(settings.host, port)

    def _connect(self) -> Connection:
        frames = FrameBuffer(self._limits)
        return Connection(self.dispatch, frames, self.broker.budget, opened=self._opened, closed=self._gone)

    def _opened(self, connection: Connection) -> None:
        if len(self._connections) >= self._settings.max_connections:
            connection.close(f"{self._settings.max_connections} connections are open already")
            return
        self._connections.add(connection)
        self._nobody.clear()

    def _gone(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._nobody.set()

    def _close_idle(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._max_idle_s
        for connection in list(self._connections):
            if connection.is_idle and connection.last_active < oldest:
                connection.abort()  # what is still queued is for a peer that has not read for so long
        self._idle_check = self._check_idle_later()

    def _check_idle_later(self) -> asyncio.TimerHandle:
        later = min(_IDLE_CHECK_S, self._max_idle_s / 2)
        return asyncio.get_running_loop().call_later(later, self._close_idle)

    @property
    def _max_idle_s(self) -> float:
        return self.broker.configs.number("connections.max.idle.ms") / 1_000
