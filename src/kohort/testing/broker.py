"""An embedded broker: ``with Broker() as broker`` or ``async with AsyncBroker() as broker``.

It lives in memory unless it is given a directory, listens on a free port of the loopback
address unless it is given one, and is a real broker in every other respect.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from kohort.broker.clock import RealClock, VirtualClock
from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.broker.topics import TopicToCreate
from kohort.client.addresses import parse_address
from kohort.client.admin import AsyncAdmin
from kohort.client.arguments import PartitionKey
from kohort.client.loop_thread import LoopThread
from kohort.client.security.settings import SecurityOptions
from kohort.security.listeners import Listener, SecurityProtocol
from kohort.security.secret import Secret
from kohort.testing.credentials import TestCredentials
from kohort.testing.intercept import Action, Interceptions, Rule, Where, rule
from kohort.testing.ports import HeldPort

_T = TypeVar("_T")


def _as_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class AsyncBroker:
    """A broker on the caller's own event loop.

    ``configs`` are Kafka's broker settings by name, for example
    ``{"group.initial.rebalance.delay.ms": 0}``. With ``virtual_time=True`` sessions, rebalances,
    retention and timestamps run on ``broker.clock``, which stands still until ``advance`` moves it.
    Clients go to ``advertised`` (``host:port``), where a proxy may wait for them.

    With ``security={"alice": "secret"}`` it has a certificate for localhost, these users, and two listeners:
    SASL_SSL with SCRAM, PLAIN and OAUTHBEARER at ``bootstrap``, SSL with client certificates at
    ``tls_bootstrap``. ``client_security("alice")`` and ``client_tls("alice")`` have the settings of a client.
    """

    def __init__(  # noqa: PLR0913 (each is an option of its own)
        self,
        *,
        data: Path | str | None = None,
        configs: Mapping[str, str | int | bool] | None = None,
        virtual_time: bool = False,
        port: int = 0,
        advertised: str | None = None,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._credentials = None if security is None else TestCredentials(security)
        secured = {} if self._credentials is None else self._credentials.broker_settings()
        self.clock = VirtualClock() if virtual_time else None
        address = parse_address(advertised) if advertised is not None else None
        self._settings = Settings(
            port=port,
            advertised_host=address.host if address is not None else None,
            advertised_port=address.port if address is not None else None,
            data=Path(data) if data is not None else None,
            overrides=secured | {name: _as_text(value) for name, value in (configs or {}).items()},
            users={name: Secret(password) for name, password in (security or {}).items()},
        )
        self._settings = replace(self._settings, listeners=self._listeners(port))
        self._held: list[HeldPort] = []  # ours, also while it restarts
        self.server = Server(self._settings, clock=self.clock)
        self._interceptions = Interceptions()
        self.bootstrap = ""
        self.tls_bootstrap = ""  # only with security

    def _listeners(self, port: int, tls_port: int = 0) -> tuple[Listener, ...]:
        if self._credentials is None:
            return ()
        settings, login, tls = self._settings, SecurityProtocol.SASL_SSL, SecurityProtocol.SSL
        advertised = (settings.advertised_host or settings.host, settings.advertised_port or 0)
        return (
            Listener(login.value, login, settings.host, port, *advertised),
            Listener(tls.value, tls, settings.host, tls_port, settings.host),
        )

    @property
    def credentials(self) -> TestCredentials:
        """Certificates and tokens; only with ``security``."""
        assert self._credentials is not None, "the broker was made without security"
        return self._credentials

    @property
    def certificate(self) -> str:
        """The certificate of the authority, as PEM text; only with ``security``."""
        return self.credentials.certificate

    def client_security(self, user: str, mechanism: str = "SCRAM-SHA-256") -> SecurityOptions:
        """Keyword arguments for ``Consumer``, ``Producer`` and ``Admin``, to log in as this user."""
        now_ms = (self.clock or RealClock()).now().wall
        return self.credentials.log_in(user, mechanism, now_ms // 1_000)

    def client_tls(self, user: str) -> SecurityOptions:
        """The same for ``tls_bootstrap``: the certificate is the log-in."""
        return {
            "security_protocol": "SSL",
            "ssl_cafile": str(self.credentials.ca_file),
            "ssl_certfile": str(self.credentials.certificate_of(user)),
        }

    async def __aenter__(self) -> Self:
        if self._settings.port == 0:
            self._held = [HeldPort(self._settings.host), HeldPort(self._settings.host)]
            port, tls_port = (one.number for one in self._held)
            self._settings = replace(self._settings, port=port, listeners=self._listeners(port, tls_port))
            self.server = Server(self._settings, clock=self.clock)
        try:
            await self._start()
        except BaseException:
            self._let_go()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.server.stop()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for port in self._held:
            port.close()

    async def _start(self) -> None:
        address = await self.server.start()
        self.bootstrap = str(address)
        if self._credentials is not None:
            self.tls_bootstrap = str(self.server.broker.endpoints[1].bound)
        self._set_interceptor()

    async def restart(self, meanwhile: Callable[[], Awaitable[object]] | None = None) -> None:
        """Stop, and start again on the same port and directory; rules stay.

        ``meanwhile`` runs while it is down. A broker that lives in memory comes back empty.
        """
        await self.server.stop()
        if meanwhile is not None:
            await meanwhile()
        self.server = Server(self._settings, clock=self.clock)
        await self._start()

    async def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; raises the broker's refusal."""
        new = TopicToCreate(name, partitions, configs=dict(configs or {}))
        await self.server.broker.topics.create(new)

    async def create_group(self, group_id: str, offsets: Mapping[PartitionKey, int]) -> None:
        """Make a group without members that has committed these offsets; raises the broker's refusal."""
        users = self._credentials.users if self._credentials is not None else {}
        security = self.client_security(next(iter(users))) if users else SecurityOptions()
        async with AsyncAdmin(self.bootstrap, **security) as admin:
            for refusal in (await admin.alter_group_offsets(group_id, offsets)).values():
                if refusal is not None:
                    raise refusal

    def intercept(self, action: Action, **where: Unpack[Where]) -> Rule:
        """Apply an action of :mod:`kohort.testing.intercept` to the requests that match every filter."""
        added = self._interceptions.add(rule(action, **where))
        self._set_interceptor()
        return added

    def stop_intercepting(self) -> None:
        """Forget every rule."""
        self._interceptions.clear()
        self._set_interceptor()

    def _set_interceptor(self) -> None:
        """Only while there are rules: a broker without them serves as ``kohort serve`` does."""
        if hasattr(self.server, "dispatch"):  # else it has not started yet
            self.server.dispatch.interceptor = self._interceptions or None


class Broker:
    """A broker on a thread and an event loop of its own, for synchronous tests."""

    def __init__(  # noqa: PLR0913 (each is an option of its own)
        self,
        *,
        data: Path | str | None = None,
        configs: Mapping[str, str | int | bool] | None = None,
        virtual_time: bool = False,
        port: int = 0,
        advertised: str | None = None,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._broker = AsyncBroker(
            data=data, configs=configs, virtual_time=virtual_time, port=port, advertised=advertised,
            security=security,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._loop = LoopThread("kohort broker", _new_loop)
        try:
            self.run(self._broker.__aenter__())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.run(self._broker.__aexit__(kind, error, traceback))
        finally:
            self._loop.stop()

    @property
    def bootstrap(self) -> str:
        """``host:port``, for the ``bootstrap_servers`` setting of any client."""
        return self._broker.bootstrap

    @property
    def certificate(self) -> str:
        """As :attr:`AsyncBroker.certificate`."""
        return self._broker.certificate

    @property
    def credentials(self) -> TestCredentials:
        """As :attr:`AsyncBroker.credentials`."""
        return self._broker.credentials

    @property
    def tls_bootstrap(self) -> str:
        """``host:port`` of the listener for client certificates; only with ``security``."""
        return self._broker.tls_bootstrap

    def client_tls(self, user: str) -> SecurityOptions:
        """As :meth:`AsyncBroker.client_tls`."""
        return self._broker.client_tls(user)

    def client_security(self, user: str, mechanism: str = "SCRAM-SHA-256") -> SecurityOptions:
        """As :meth:`AsyncBroker.client_security`."""
        return self._broker.client_security(user, mechanism)

    @property
    def server(self) -> Server:
        """The server inside; touch it only through :meth:`run`, on its own loop."""
        return self._broker.server

    def restart(self) -> None:
        """As :meth:`AsyncBroker.restart`."""
        self.run(self._broker.restart())

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the broker's loop and wait for its result."""
        return self._loop.submit(coroutine).result()

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """As :meth:`AsyncBroker.create_topic`."""
        self.run(self._broker.create_topic(name, partitions=partitions, configs=configs))

    def create_group(self, group_id: str, offsets: Mapping[PartitionKey, int]) -> None:
        """As :meth:`AsyncBroker.create_group`."""
        self.run(self._broker.create_group(group_id, offsets))

    def advance(self, milliseconds: int) -> None:
        """Move virtual time on; everything that comes due has happened when this returns."""
        clock = self._broker.clock
        if clock is None:
            raise ValueError("this broker runs on real time; ask for virtual_time=True")
        self._loop.do(lambda: clock.advance(milliseconds))

    def intercept(self, action: Action, **where: Unpack[Where]) -> Rule:
        """As :meth:`AsyncBroker.intercept`."""
        return self._loop.do(lambda: self._broker.intercept(action, **where))

    def stop_intercepting(self) -> None:
        """Forget every rule."""
        self._loop.do(self._broker.stop_intercepting)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
