"""The TLS context of a listener: PEM files or texts in, new contexts when the files change (security 2)."""

import logging
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import ECONNRESET
from pathlib import Path
from typing import NamedTuple

from kohort.model.errors import KohortError, reason_of
from kohort.security.ciphers import openssl_ciphers
from kohort.security.listeners import Listener, SecurityProtocol, find_setting
from kohort.security.principals import ANONYMOUS, PrincipalMapper
from kohort.security.x509 import CertificateError, alternative_names, subject

logger = logging.getLogger("kohort.tls")

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_CONVERT = "convert it: openssl pkcs12 -in STORE -nodes -out broker.pem, and set the type to PEM"


class ListenerTlsError(KohortError):
    """Settings or files that make no TLS context."""


class _Stores(NamedTuple):
    """What is read from files and settings, as PEM text."""

    chain: str
    key: str
    trust: str


class _Identity(NamedTuple):
    """What a new certificate must not change on reload, unless that is allowed."""

    subject: str
    names: frozenset[bytes]


class ListenerTls:
    """The certificate of one listener. ``context`` is for the next connection; open ones keep theirs."""

    def __init__(self, listener: Listener, settings: Mapping[str, str]) -> None:
        self._listener = listener
        self._settings = settings
        self._mapper = PrincipalMapper(self._get("ssl.principal.mapping.rules") or "")
        self._seen = self._stamps()
        self.context, self._identity = self._load()

    def principal(self, certificate: bytes | None) -> str:
        """The principal of a peer's certificate in DER; raises KohortError if there can be none."""
        if certificate is None:
            return ANONYMOUS
        try:
            return self._mapper.principal(subject(certificate))
        except CertificateError as error:
            raise ListenerTlsError(f"the client's certificate cannot be read: {error}") from None

    def reload(self) -> bool:
        """Read the files again if they changed; a bad one is logged, and the old certificate stays."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        try:
            context, identity = self._load()
            self._check_change(identity)
            self._try_out(context)
        except (KohortError, OSError) as error:
            logger.error("listener %s keeps its certificate: %s", self._listener.name, error)
            return False
        self.context, self._identity = context, identity
        logger.info("listener %s has a new certificate", self._listener.name)
        return True

    def _check_change(self, new: _Identity) -> None:
        if new.subject != self._identity.subject and self._get("ssl.allow.dn.changes") != "true":
            raise ListenerTlsError(
                f"the new certificate is of {new.subject}, the old one of {self._identity.subject}",
                hint="set ssl.allow.dn.changes=true if that is meant",
            )
        if not self._identity.names <= new.names and self._get("ssl.allow.san.changes") != "true":
            raise ListenerTlsError(
                "the new certificate lacks alternative names that the old one has",
                hint="set ssl.allow.san.changes=true if that is meant",
            )

    def _try_out(self, new: ssl.SSLContext) -> None:
        """A handshake in memory, with a client that trusts this certificate alone and has none of its own."""
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.set_ciphers("ALL")
        client.load_verify_locations(cadata=self._read_keystore()[0])
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        wanted, new.verify_mode = new.verify_mode, ssl.CERT_NONE
        try:
            _shake_hands(new, client)
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "") or _reason(error)
            raise ListenerTlsError(f"no handshake with it: {why}") from None
        finally:
            new.verify_mode = wanted

    def _get(self, key: str) -> str | None:
        return find_setting(self._settings, self._listener.name, key)

    def _stamps(self) -> list[tuple[int, int] | None]:
        stamps: list[tuple[int, int] | None] = []
        for key in ("ssl.keystore.location", "ssl.truststore.location", *_SHORTHANDS):
            path = self._get(key)
            if path is not None:
                try:
                    found = os.stat(path)
                    stamps.append((found.st_mtime_ns, found.st_ino))
                except OSError:
                    stamps.append(None)
        return stamps

    def _load(self) -> tuple[ssl.SSLContext, _Identity]:
        stores = self._read()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = self._versions()
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.num_tickets = 0  # connections live long: resuming is not worth the state
        if suites := self._get("ssl.cipher.suites"):
            self._set_ciphers(context, suites)
        self._load_key(context, stores)
        self._load_trust(context, stores.trust)
        first = _PEM.search(stores.chain)
        assert first is not None
        der = ssl.PEM_cert_to_DER_cert(first[0])
        try:
            return context, _Identity(subject(der), alternative_names(der))
        except CertificateError as error:
            raise self._wrong(f"the certificate cannot be read: {error}") from None

    def _set_ciphers(self, context: ssl.SSLContext, suites: str) -> None:
        ciphers = openssl_ciphers(suites)
        if not ciphers:
            return
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError:
            raise self._wrong("ssl.cipher.suites names no cipher suite of OpenSSL") from None

    def _versions(self) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
        wanted = [one.strip() for one in (self._get("ssl.enabled.protocols") or "TLSv1.2,TLSv1.3").split(",")]
        if not wanted or not set(wanted) <= set(_VERSIONS):
            raise self._wrong(f"ssl.enabled.protocols must be of {', '.join(_VERSIONS)}")
        versions = [_VERSIONS[one] for one in wanted]
        return min(versions), max(versions)

    def _load_key(self, context: ssl.SSLContext, stores: _Stores) -> None:
        def password() -> str:
            given = self._get("ssl.key.password")
            if given is None:
                raise self._wrong("the private key is encrypted, and ssl.key.password is not set")
            return given

        def load(path: str) -> None:
            context.load_cert_chain(path, password=password)

        try:
            _with_file(f"{stores.key}\n{stores.chain}\n", load)
        except ssl.SSLError as error:
            raise self._wrong(f"key and certificate cannot be used: {_reason(error)}") from None

    def _load_trust(self, context: ssl.SSLContext, trust: str) -> None:
        # Without a prefix the setting holds for SSL listeners only, as in Kafka.
        key = "ssl.client.auth"
        is_ssl = self._listener.protocol is SecurityProtocol.SSL
        wanted = self._get(key) if is_ssl else self._settings.get(f"{self._prefix}{key}")
        try:
            context.verify_mode = _CLIENT_AUTH[wanted or "none"]
        except KeyError:
            raise self._wrong(f"{key} must be one of {', '.join(_CLIENT_AUTH)}") from None
        if context.verify_mode is ssl.CERT_NONE:
            return
        if not trust:
            raise self._wrong(
                f"{key}={wanted} needs the certificates of your authority: ssl.truststore.location"
            )
        try:
            context.load_verify_locations(cadata=trust)
        except ssl.SSLError as error:
            raise self._wrong(f"the trust store cannot be used: {_reason(error)}") from None

    @property
    def _prefix(self) -> str:
        return f"listener.name.{self._listener.name.lower()}."

    def _read(self) -> _Stores:
        chain, key = self._read_keystore()
        return _Stores(chain, key, self._read_truststore())

    def _read_keystore(self) -> tuple[str, str]:
        location, chain, key = map(
            self._get, ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key")
        )
        self._check_store("ssl.keystore", key or chain, location)
        if key is not None and chain is None:
            raise self._wrong("ssl.keystore.key is set without ssl.keystore.certificate.chain")
        if chain is not None and key is None:
            raise self._wrong("ssl.keystore.certificate.chain is set without ssl.keystore.key")
        if location is None and chain is None:
            location = self._get("ssl.certfile")
        if chain is not None and key is not None:
            return self._blocks(chain, "CERTIFICATE"), self._blocks(key, "PRIVATE KEY")
        if location is None:
            raise self._wrong("TLS needs a certificate: set ssl.keystore.type=PEM and ssl.keystore.location")
        text = self._file(location)
        keyfile = self._get("ssl.keyfile")
        key_text = text if keyfile is None else self._file(keyfile)
        return self._blocks(text, "CERTIFICATE", location), self._blocks(
            key_text, "PRIVATE KEY", keyfile or location
        )

    def _read_truststore(self) -> str:
        location, text = map(self._get, ("ssl.truststore.location", "ssl.truststore.certificates"))
        self._check_store("ssl.truststore", text, location)
        if text is None:
            location = location or self._get("ssl.cafile")
            text = None if location is None else self._file(location)
        return "" if text is None else self._blocks(text, "CERTIFICATE", location or "")

    def _check_store(self, store: str, text: str | None, location: str | None) -> None:
        """The refusals of Kafka, in its order."""
        kind = self._get(f"{store}.type")
        if text is not None and kind != "PEM":
            raise self._wrong(f"certificates and keys as text need {store}.type=PEM")
        if kind not in (None, "PEM"):
            raise self._wrong(f"{store}.type={kind} is not supported; {_CONVERT}")
        if text is not None and location is not None:
            raise self._wrong(f"{store}.location and the text of the store exclude each other")
        if self._get(f"{store}.password") is not None:
            raise self._wrong(f"{store}.password cannot be set for PEM; a key has ssl.key.password")

    def _file(self, path: str) -> str:
        try:
            return Path(path).read_text(errors="replace")
        except OSError as error:
            raise self._wrong(f"{path} cannot be read: {reason_of(error)}") from None

    def _blocks(self, text: str, kind: str, path: str = "") -> str:
        """The PEM blocks of a kind, with their line breaks repaired: property files turn them into spaces."""
        found = [
            f"-----BEGIN {name}-----\n{_lines(content)}\n-----END {name}-----"
            for name, content in _PEM.findall(text)
            if name.endswith(kind)
        ]
        if not found:
            raise self._wrong(f"{path or 'the text'} has no {kind} in PEM form; {_CONVERT}")
        return "\n".join(found)

    def _wrong(self, what: str) -> ListenerTlsError:
        return ListenerTlsError(f"listener {self._listener.name}: {what}")


_FLIGHTS = 5  # each way: TLS 1.2 needs three
_SHORTHANDS = ("ssl.certfile", "ssl.keyfile", "ssl.cafile")


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Raises SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = [client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    for _ in range(_FLIGHTS):
        for side in list(waiting):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                waiting.remove(side)
    if waiting:
        raise ssl.SSLError("it does not end")


def _lines(content: str) -> str:
    if ":" in content:  # headers of an old encrypted key: its lines carry meaning
        return content.strip()
    return "\n".join(content.split())


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _with_file(text: str, use: Callable[[str], None]) -> None:
    """OpenSSL reads keys from files only: an unnamed one in memory, or one that is gone right after."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("kohort")
        try:
            os.write(number, text.encode())
            use(f"/proc/self/fd/{number}")
        finally:
            os.close(number)
        return
    with tempfile.TemporaryDirectory() as directory:  # made with mode 0700
        path = Path(directory, "key.pem")
        with suppress(FileNotFoundError), open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
        use(str(path))


def handshake_error(error: OSError) -> str:
    """Why a handshake failed, in words."""
    if isinstance(error, ConnectionError) and error.errno in (None, ECONNRESET):
        return "the peer closed the connection; it may not trust this broker's certificate"
    if not isinstance(error, ssl.SSLError):
        return reason_of(error)
    reason = error.reason or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "it does not speak TLS (set security.protocol of the client)"
    return reason.replace("_", " ").lower()
