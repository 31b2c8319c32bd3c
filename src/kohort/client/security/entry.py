"""How the connections of one client enter a cluster: TLS when they connect, SASL right after."""

import asyncio
import contextlib
import os
import re
import ssl
import tempfile
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from kohort.client.addresses import Address
from kohort.client.errors import ConnectError, SettingError, TlsError
from kohort.client.security.sasl import Credentials, SaslPeer, SaslSession
from kohort.client.security.settings import SecuritySettings
from kohort.model.errors import KohortError
from kohort.security.ciphers import openssl_ciphers

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
# OpenSSL's verify codes
_EXPIRED, _NOT_YET, _REVOKED = 10, 9, 23
_UNTRUSTED = (2, 18, 19, 20, 21)
_WRONG_HOST = (62, 64)


def make_context(settings: SecuritySettings) -> ssl.SSLContext:
    """A context that verifies the broker; raises SettingError for files that cannot be used."""
    if settings.ssl_context is not None:
        return settings.ssl_context
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[settings.ssl_min_version]
    context.maximum_version = _VERSIONS[settings.ssl_max_version]
    context.check_hostname = settings.ssl_check_hostname
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_trust(context, settings)
    if settings.ssl_ciphers is not None and (ciphers := openssl_ciphers(settings.ssl_ciphers)):
        with _naming("ssl_ciphers", settings.ssl_ciphers):
            context.set_ciphers(ciphers)
    if settings.ssl_certfile is not None or settings.ssl_certdata is not None:
        _load_certificate(context, settings)
    return context


def _load_trust(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    if settings.ssl_cafile is not None:
        where = Path(settings.ssl_cafile).expanduser()
        with _naming("ssl_cafile", settings.ssl_cafile):
            if where.is_dir():
                context.load_verify_locations(capath=where)
            else:
                context.load_verify_locations(cafile=where)
    elif settings.ssl_cadata is not None:
        with _naming("ssl_cadata", "the text"):
            context.load_verify_locations(cadata=mended_pem(settings.ssl_cadata))
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.ssl_crlfile is not None:
        with _naming("ssl_crlfile", settings.ssl_crlfile):
            context.load_verify_locations(cafile=settings.ssl_crlfile)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_certificate(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    def password() -> str:
        # Without this function OpenSSL would ask on the terminal.
        secret = settings.secret("ssl_password")
        if secret is None:
            raise SettingError("the client's key is encrypted", hint="set ssl_password (ssl.key.password)")
        return secret.reveal()

    with contextlib.ExitStack() as stack:
        name = "ssl_certfile" if settings.ssl_certfile is not None else "ssl_certdata"
        stack.enter_context(_naming(name, settings.ssl_certfile or "the text"))
        certificate, key = settings.ssl_certfile, settings.ssl_keyfile
        if settings.ssl_certdata is not None:
            certificate = stack.enter_context(_as_file(mended_pem(settings.ssl_certdata)))
        keydata = settings.secret("ssl_keydata")
        if keydata is not None:
            key = stack.enter_context(_as_file(mended_pem(keydata.reveal())))
        assert certificate is not None
        context.load_cert_chain(certificate, key, password)


@contextlib.contextmanager
def _naming(setting: str, shown: str) -> Iterator[None]:
    """Turn what OpenSSL and the system say into a SettingError that names the setting, never its content."""
    try:
        yield
    except ssl.SSLError as error:
        reason = getattr(error, "reason", None)  # errors of Python itself have none
        why = reason.lower().replace("_", " ") if reason else "OpenSSL cannot use it"
        if reason in ("BAD_DECRYPT", "BAD_PASSWORD_READ"):
            why = "the password of the key is wrong"
        raise SettingError(f"{setting}: cannot use {shown}: {why}") from None
    except OSError as error:
        raise SettingError(f"{setting}: cannot read {shown}: {error.strerror or error}") from None
    except ValueError as error:
        raise SettingError(f"{setting}: cannot use {shown}: {error}") from None


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A path to the text as long as the block lasts: in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("kohort", os.MFD_CLOEXEC)
        with open(handle, "w") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{handle}"
        return
    with tempfile.TemporaryDirectory() as folder:  # mode 0700
        path = Path(folder) / "pem"
        path.touch(0o600)
        path.write_text(text)
        yield str(path)


def mended_pem(text: str) -> str:
    """PEM blocks with their line breaks, which properties files and options turn into spaces or ``\\n``."""
    blocks = [
        f"-----BEGIN {kind}-----\n{_body(body)}\n-----END {kind}-----\n"
        for kind, body in _BLOCK.findall(text)
    ]
    return "".join(blocks) or text


def _body(body: str) -> str:
    body = body.strip().replace("\\n", "\n").strip()
    if ":" in body:  # an old encrypted key has headers, and an empty line behind them
        return body
    return "\n".join(body.split())


def server_name(address: Address) -> str:
    """What the broker's certificate is checked against: the name as written or advertised."""
    return address.host.rstrip(".") or address.host


def tls_error(error: OSError, address: Address, *, has_certificate: bool) -> KohortError:
    """What a failed handshake means; ``has_certificate``: the client has one of its own."""
    host = server_name(address)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _bad_certificate(error, address, host)
    reason = getattr(error, "reason", None) or ""
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"):
        return TlsError(f"{address} does not speak TLS", hint="is it a PLAINTEXT or SASL_PLAINTEXT listener?")
    if "PROTOCOL_VERSION" in reason or reason in ("UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"):
        return TlsError(f"{address} has no TLS version in common with us", hint="use TLS 1.2 or 1.3")
    if "HANDSHAKE_FAILURE" in reason:
        return TlsError(
            f"{address} refuses the TLS handshake",
            hint="no common cipher, or the broker requires a client certificate (ssl_certfile)",
        )
    if "CERTIFICATE" in reason and not has_certificate:
        return TlsError(
            f"{address} requires a client certificate", hint="set ssl_certfile (ssl.keystore.location)"
        )
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return TlsError(
            f"{address} does not accept our certificate: {reason.lower().replace('_', ' ')}",
            hint="the broker must trust the authority of ssl_certfile",
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return TlsError(f"TLS with {address} failed: {reason.lower().replace('_', ' ') or error}")
    return ConnectError(
        f"{address} closed the connection during the TLS handshake (is it a TLS listener?)",
        hint="a PLAINTEXT listener closes connections this way, and so does a broker that stops",
    )


def _bad_certificate(error: ssl.SSLCertVerificationError, address: Address, host: str) -> TlsError:
    code = error.verify_code
    if code in _WRONG_HOST:
        kind = "address" if _is_ip(host) else "host name"
        return TlsError(
            f"the certificate of {address} is not for the {kind} {host}",
            hint="connect by a name that is in the certificate, or let the broker advertise one",
        )
    if code == _EXPIRED:
        return TlsError(f"the certificate of {address} has expired", hint="the broker needs a new one")
    if code == _NOT_YET:
        return TlsError(f"the certificate of {address} is not valid yet", hint="are the clocks right?")
    if code == _REVOKED:
        return TlsError(f"the certificate of {address} is revoked", hint="the broker needs a new one")
    if code in _UNTRUSTED:
        return TlsError(
            f"the certificate of {address} is signed by an unknown authority",
            hint="set ssl_cafile (ssl.ca.location, ssl.truststore.location) to the authority's certificate",
        )
    return TlsError(f"the certificate of {address} is not valid: {error.verify_message}")


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


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
    def has_certificate(self) -> bool:
        """Whether there is one for the broker, or a context that may have one."""
        settings = self.settings
        own = (settings.ssl_certfile, settings.ssl_certdata, settings.ssl_context)
        return any(each is not None for each in own)

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
        return tls_error(error, address, has_certificate=self.has_certificate)

    async def log_in(self, peer: SaslPeer) -> SaslSession | None:
        """A session, if the settings ask for one. Raises AuthenticationError."""
        if self._credentials is None:
            return None
        session = SaslSession(self._credentials, peer)
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
