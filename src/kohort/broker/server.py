"""A running broker: opens its data, listens, and shuts everything down in order."""

import asyncio
import logging
import os
import ssl
from dataclasses import replace
from functools import partial

from kohort.broker.broker import BrokerState
from kohort.broker.clock import Clock, RealClock
from kohort.broker.config_values import check_start_configs
from kohort.broker.connection import BrokerConnection, Requests
from kohort.broker.dispatch import Dispatch
from kohort.broker.endpoints import ListenAddress, check_risks
from kohort.broker.handlers import request_limits
from kohort.broker.listening import PortListener
from kohort.broker.login_limits import ArrivalRate, ConnectionPlace, ConnectionPlaces, PerAddress
from kohort.broker.maintenance import BrokerMaintenance
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.broker.tls import handshake_error
from kohort.log.files.disk import Disk
from kohort.model.errors import KohortError
from kohort.security.listeners import Listener as ListenerSettings
from kohort.security.listeners import find_setting

logger = logging.getLogger("kohort.server")

_IDLE_CHECK_S = 30.0  # at most; half of the time a connection may be idle, if that is shorter
_CERTIFICATES_CHECK_S = 30.0
_RATES = ("max.connection.creation.rate", "kohort.max.connection.creation.rate.per.ip")
_NO_LIMIT = 2**31 - 1


class Server:
    """One broker with its listening sockets. ``start`` and ``stop`` are called once each, on one loop."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        self._settings = settings
        self._clock = clock or RealClock()
        self._disk = disk
        self._connections: set[BrokerConnection] = set()
        self._no_client = asyncio.Event()  # set while no client is connected
        self._listeners: list[PortListener] = []  # in the order of the broker's endpoints
        self._certificates_check: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def all_closed(self) -> None:
        """Wait until no client is connected."""
        await self._no_client.wait()

    async def start(self) -> ListenAddress:
        """Open the data, listen, and return the address of the first listener."""
        settings = self._settings
        check_start_configs(settings.overrides)
        check_risks(settings.endpoints(), settings.overrides, insecure=settings.insecure)
        try:
            if settings.cluster is not None:  # other nodes tell clients of the ports
                settings = await self._bind(settings)
            catalog, storage = await open_data(settings, self._disk)
        except BaseException:
            await self._close_listeners()
            raise
        try:
            self.broker = BrokerState(settings, catalog, storage, self._clock)
            await self.broker.start()
            for repair in storage.reports():
                logger.warning("recovered %s: %s", repair.directory, repair.what)
            self.dispatch = Dispatch(self.broker)
            await self.broker.prepare_users()
            self._places = self._limits()
            if not self._listeners:
                settings = await self._bind(settings)
            self._listen(settings)
        except BaseException:
            await self._close_listeners()
            if hasattr(self, "broker"):  # it may be loading groups already
                await self.broker.stop_coordinating()
                await self.broker.following.stop()
                self.broker.close_log_ins()
            await catalog.leave()
            await storage.close(started=False)
            raise
        self._maintenance = BrokerMaintenance(self.broker)
        self._maintenance.start()
        self._idle_check = self._check_idle_later()
        self._watch_certificates()
        return self.broker.endpoints[0].bound

    def reload_certificates(self) -> None:
        """Read certificates and keys again where their files changed."""
        for endpoint in self.broker.endpoints:
            if endpoint.tls is not None:
                endpoint.tls.reload()
            if endpoint.sasl is not None and endpoint.sasl.tokens is not None:
                endpoint.sasl.tokens.reload()

    async def stop(self) -> None:
        """Stop listening, drop the connections, end the background work, close the data cleanly.

        What others can lead is handed over first, so that clients still hear where to go.
        """
        await self.broker.catalog.leave()
        self._idle_check.cancel()
        if self._certificates_check is not None:
            self._certificates_check.cancel()
        await self._close_listeners()
        for connection in list(self._connections):
            connection.abort()
        if self._connections:
            await self.all_closed()
        await self._maintenance.stop()
        await self.broker.stop_coordinating()
        await self.dispatch.drain()
        self.broker.budget.close()
        await self.broker.stop()

    async def _bind(self, settings: Settings) -> Settings:
        """Take the ports of all listeners; settings that know them."""
        bound: list[ListenerSettings] = []
        for number, where in enumerate(settings.endpoints()):
            has_tls = where.protocol.has_tls
            listener = PortListener(
                partial(self._connect, number),
                admit=partial(self._admit, where.name),
                tls=partial(self._tls_context, number) if has_tls else None,
                failed=partial(self._handshake_failed, where.name) if has_tls else None,
            )
            self._listeners.append(listener)
            try:
                bound.append(where._replace(port=await listener.bind(where.host, where.port)))
            except OSError as error:
                raise _cannot_listen(where, error) from error
        return replace(settings, listeners=tuple(bound))

    def _listen(self, settings: Settings) -> None:
        limits = request_limits(settings.max_produce_frame)
        listeners = zip(self.broker.endpoints, settings.listeners, self._listeners, strict=True)
        for endpoint, where, listener in listeners:
            endpoint.request_limits = limits
            endpoint.opened(where.port)
            rates = [find_setting(settings.overrides, where.name, name) for name in _RATES]
            if any(rates):
                listener.rate = ArrivalRate(*(int(rate or _NO_LIMIT) for rate in rates))
            try:
                listener.open()
            except OSError as error:
                raise _cannot_listen(where, error) from error

    async def _close_listeners(self) -> None:
        for listener in self._listeners:
            await listener.close()

    def _limits(self) -> ConnectionPlaces:
        overrides, configs = self._settings.overrides, self.broker.configs
        names = ("max.connections.per.ip", "max.connections.per.ip.overrides")
        is_limited = any(name in overrides for name in names)
        per_address = PerAddress(configs.number(names[0]), configs.text(names[1])) if is_limited else None
        listeners = [one.listener.name for one in self.broker.endpoints]
        settings = {name: f"listener.name.{name.lower()}.max.connections" for name in listeners}
        of_listeners = {name: int(overrides[key]) for name, key in settings.items() if key in overrides}
        return ConnectionPlaces(of_listeners, per_address)

    def _admit(self, listener: str, host: str) -> ConnectionPlace | None:
        most = min(self._settings.max_connections, self.broker.configs.number("max.connections"))
        place = self._places.take(listener, host, most)
        if isinstance(place, ConnectionPlace):
            return place
        self.broker.notices.warn(
            logger, f"refused connections of {host}", f"closed a connection of {host}: {place}"
        )
        return None

    def _tls_context(self, number: int) -> ssl.SSLContext:
        tls = self.broker.endpoints[number].tls
        assert tls is not None
        return tls.context

    def _handshake_failed(self, name: str, host: str, error: OSError) -> None:
        about = f"failed TLS handshakes of {host}"
        text = f"{host} did not finish the TLS handshake of listener {name}: {handshake_error(error)}"
        self.broker.notices.warn(logger, about, text)

    def _watch_certificates(self) -> None:
        self.reload_certificates()
        later = asyncio.get_running_loop().call_later
        if any(one.tls is not None or one.sasl is not None for one in self.broker.endpoints):
            self._certificates_check = later(_CERTIFICATES_CHECK_S, self._watch_certificates)

    def _connect(self, number: int, place: ConnectionPlace) -> BrokerConnection:
        endpoint = self.broker.endpoints[number]
        sasl = endpoint.sasl
        if sasl is None:
            requests: Requests = self.dispatch
        else:
            from kohort.broker.gate import Gate

            requests = Gate(self.broker, self.dispatch, sasl)
        return BrokerConnection(
            requests, endpoint.frames(), endpoint, opened=self._opened, closed=partial(self._gone, place)
        )

    def _opened(self, connection: BrokerConnection) -> None:
        self._connections.add(connection)
        self._no_client.clear()

    def _gone(self, place: ConnectionPlace, connection: BrokerConnection) -> None:
        place.leave()
        self._connections.discard(connection)
        if not self._connections:
            self._no_client.set()

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


def _cannot_listen(where: ListenerSettings, error: OSError) -> KohortError:
    number = error.errno or 0  # those of name resolution are negative, and nothing to strerror
    reason = os.strerror(number).lower() if number > 0 else error.strerror or str(error)
    return KohortError(
        f"cannot listen on {where.host}:{where.port}: {reason}",
        hint="choose another address or port; port 0 picks a free one",
    )
