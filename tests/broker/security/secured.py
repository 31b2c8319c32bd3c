"""Brokers with listeners, and raw connections over TLS, for the tests of this folder."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.broker.raw import Raw, Reply

from kohort.broker.clock import Clock
from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.client.loop_thread import LoopThread
from kohort.security.acls import Acl, AclResourceType, Operation, PatternType, Permission
from kohort.security.certs import DevAuthority
from kohort.security.listeners import NamedAddress, build_listeners
from kohort.security.scram import ScramClient, ScramMechanism, salted_password
from kohort.security.secret import Secret
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest

USERS = {"alice": "alice-secret", "bob": "bob-secret", "admin": "admin-secret"}


class RunningServer:
    """A server on a loop of its own."""

    def __init__(self, server: Server, loop: LoopThread) -> None:
        self.server = server
        self.loop = loop
        self.ports = {one.listener.name: one.bound.port for one in server.broker.endpoints}

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def allow(self, kind: AclResourceType, name: str, operation: Operation) -> None:
        """Give alice a right."""
        rule = Acl(kind, name, PatternType.LITERAL, "User:alice", "*", operation, Permission.ALLOW)
        broker = self.server.broker

        async def store() -> None:
            await broker.catalog.change_acls([], [rule])
            assert broker.authorizer is not None
            broker.authorizer.changed(broker.catalog.acls)

        self.loop.submit(store()).result()


@contextmanager
def serving(
    *listen: str, settings: Mapping[str, str], data: Path | None = None, clock: Clock | None = None
) -> Iterator[RunningServer]:
    """A broker with these listeners (names of protocols) on free ports of the loopback address."""
    named = [NamedAddress(name, "127.0.0.1", 0) for name in listen]
    listeners = build_listeners(named, [], settings)
    loop = LoopThread("kohort broker", asyncio.new_event_loop)
    try:
        users = {user: Secret(password) for user, password in USERS.items()}
        server = Server(
            Settings(listeners=listeners, data=data, overrides=settings, users=users), clock=clock
        )
        loop.submit(server.start()).result()
        try:
            yield RunningServer(server, loop)
        finally:
            loop.submit(server.stop()).result()
    finally:
        loop.stop()


class Certificates:
    """An authority with a broker's and a client's certificate, in files."""

    def __init__(self, directory: Path, name: str = "CA") -> None:
        self.directory = directory
        self.authority = DevAuthority(datetime.now(UTC), name=name)
        self.ca = self.write("ca.pem", self.authority.certificate)
        self.broker = self.issue("broker")

    def issue(self, common_name: str, *, days: int = 1, file: str = "") -> str:
        return self.write(file or f"{common_name}.pem", self.authority.issue(common_name, days=days))

    def write(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def settings(self, **more: str) -> dict[str, str]:
        """Those of a listener with TLS; dots are written as underscores."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.broker,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def client_context(self, certificate: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


class RawTls(Raw):
    """A raw connection over TLS."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        super().__init__(address)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


class Login:
    """SASL with a raw connection: each step is one request."""

    def __init__(self, raw: Raw, *, version: int = 2) -> None:
        self.raw = raw
        self.version = version

    def handshake(self, mechanism: str, version: int = 1) -> Reply:
        return self.raw.send(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, token: bytes) -> Reply:
        return self.raw.send(SaslAuthenticateRequest(auth_bytes=token), self.version)

    def plain(self, user: str, password: str) -> Reply:
        assert self.handshake("PLAIN").error_code == 0
        return self.token(f"\0{user}\0{password}".encode())

    def scram(self, mechanism: ScramMechanism, user: str, password: str) -> Reply:
        """Run the whole exchange; the server's signature is checked."""
        client = ScramClient(mechanism, user, "clientnonce")
        assert self.handshake(mechanism.value).error_code == 0
        reply = self.token(client.first())
        if reply.error_code:
            return reply
        client.challenge(reply.auth_bytes)
        reply = self.token(client.final(salted_password(mechanism, password, client.salt, client.iterations)))
        if not reply.error_code:
            client.verify(reply.auth_bytes)
        return reply
