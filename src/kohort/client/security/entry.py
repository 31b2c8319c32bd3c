"""How the connections of one client enter a cluster: TLS when they connect, SASL right after."""

import asyncio
import ssl
import time

from kohort.client.addresses import Address
from kohort.client.security.sasl import Credentials, Peer, Session
from kohort.client.security.settings import SecuritySettings
from kohort.client.security.tls import make_context, server_name, tls_error
from kohort.model.errors import KohortError

_SHUTDOWN_SECONDS = 1.0


class ClientSecurity:
    """Made once for a client: loading certificates takes milliseconds. Raises SettingError."""

    def __init__(self, settings: SecuritySettings) -> None:
        self.settings = settings
        self._context: ssl.SSLContext | None = make_context(settings) if settings.uses_tls else None
        self._credentials = Credentials(settings) if settings.uses_sasl else None
        self._not_before: dict[Address, float] = {}

    def __repr__(self) -> str:
        mechanism = f", {self.settings.sasl_mechanism}" if self.uses_sasl else ""
        return f"<ClientSecurity {self.settings.security_protocol}{mechanism}>"

    def __reduce__(self) -> tuple[type["ClientSecurity"], tuple[SecuritySettings]]:
        return ClientSecurity, (self.settings,)  # contexts and tokens belong to their process

    @property
    def uses_tls(self) -> bool:
        return self._context is not None

    @property
    def uses_sasl(self) -> bool:
        return self._credentials is not None

    async def dial(self, protocol: asyncio.Protocol, address: Address) -> None:
        """Connect, with TLS; raises OSError, see ``explained``."""
        await asyncio.get_running_loop().create_connection(
            lambda: protocol,
            address.host,
            address.port,
            ssl=self._context,
            server_hostname=server_name(address),
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )

    def explained(self, error: OSError, address: Address) -> KohortError | None:
        """What went wrong with TLS; None if the connection failed before."""
        # A connection that ends during the handshake is reset or aborted; one that is refused had none.
        of_tls = ssl.SSLError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError
        if self._context is None or not isinstance(error, of_tls):
            return None
        settings = self.settings
        own = (settings.ssl_certfile, settings.ssl_certdata, settings.ssl_context)
        return tls_error(error, address, has_certificate=any(each is not None for each in own))

    async def log_in(self, peer: Peer) -> Session | None:
        """A session, if the settings ask for one. Raises AuthenticationError."""
        if self._credentials is None:
            return None
        session = Session(self._credentials, peer)
        await session.begin()
        return session

    async def pause(self, address: Address) -> None:
        """Wait after a refused log-in: brokers lock the accounts of clients that try again and again."""
        left = self._not_before.get(address, 0.0) - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)

    def refused(self, address: Address, pause_ms: int) -> None:
        """Remember a refused log-in for ``pause``."""
        self._not_before[address] = time.monotonic() + pause_ms / 1_000


def client_security(settings: SecuritySettings) -> ClientSecurity | None:
    """None for plaintext without log-in."""
    return ClientSecurity(settings) if settings.uses_tls or settings.uses_sasl else None
