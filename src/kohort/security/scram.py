"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): both sides of the exchange, without I/O and dice.

::

    client                                   server
    n,,n=alice,r=NONCE                 -->
                                       <--   r=NONCE+SERVER,s=SALT,i=ITERATIONS
    c=biws,r=NONCE+SERVER,p=PROOF      -->
                                       <--   v=SIGNATURE

:class:`ScramClient` drives the left side, :class:`ScramServer` the right side. Nonces come from the caller.
As in Kafka, names and passwords are plain UTF-8: SASLprep would refuse what Kafka accepts. Signatures are
over the bytes that were received, never over a text that was put together again.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from enum import Enum

from kohort.model.errors import KohortError

LEAST_ITERATIONS = 4_096
MOST_ITERATIONS_OF_A_CREDENTIAL = 16_384  # what Kafka lets a credential have
MOST_ITERATIONS_FOR_A_CLIENT = 1_000_000  # a hostile server must not keep a client busy
_LONGEST_MESSAGE = 64 * 1024

_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)"
_NONCE = rb"[\x21-\x2b\x2d-\x7e]+"
_VALUE = rb"[\x01-\x2b\x2d-\x7f]+"
_EXTENSIONS = rb"(?:,[A-Za-z]+=" + _VALUE + rb")*"
_BASE64 = rb"[A-Za-z0-9+/]+={0,2}"

_CLIENT_FIRST = re.compile(
    rb"(?P<header>n,(?:a=(?P<authzid>" + _NAME + rb"+))?,)"
    rb"(?P<bare>(?:m=" + _VALUE + rb",)?n=(?P<user>" + _NAME + rb"+),r=(?P<nonce>" + _NONCE + rb")"
    rb"(?P<extensions>" + _EXTENSIONS + rb"))"
)
_SERVER_FIRST = re.compile(
    rb"(?:m=" + _VALUE + rb",)?r=(?P<nonce>" + _NONCE + rb"),s=(?P<salt>" + _BASE64 + rb")"
    rb",i=(?P<iterations>[0-9]{1,10})" + _EXTENSIONS
)
_CLIENT_FINAL = re.compile(
    rb"(?P<unsigned>c=(?P<binding>" + _BASE64 + rb"),r=(?P<nonce>" + _NONCE + rb")" + _EXTENSIONS + rb")"
    rb",p=(?P<proof>" + _BASE64 + rb")"
)
_SERVER_FINAL = re.compile(
    rb"(?:v=(?P<signature>" + _BASE64 + rb")|e=(?P<error>" + _VALUE + rb"))" + _EXTENSIONS
)


class ScramError(KohortError):
    """The peer's message breaks the rules, or its proof is wrong. No text of it quotes a secret."""


class ScramMechanism(Enum):
    """A hash function; the value is the name of the SASL mechanism."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def hash_size(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64

    @property
    def wire_number(self) -> int:
        """The number in DescribeUserScramCredentials and AlterUserScramCredentials."""
        return 1 if self is ScramMechanism.SHA_256 else 2

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.hash_name)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password. The keys let others pose as the server: not for any output."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The slow part: 1.3 ms at 4096 iterations of SHA-256. It is as good as the password."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential from a salted password, as AlterUserScramCredentials carries it."""
    return ScramCredential(
        salt,
        mechanism.hash(mechanism.hmac(salted, b"Client Key")),
        mechanism.hmac(salted, b"Server Key"),
        iterations,
    )


def is_password_of(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Whether a password in clear (PLAIN) fits a credential; as slow as :func:`salted_password`."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    stored_key = mechanism.hash(mechanism.hmac(salted, b"Client Key"))
    return hmac.compare_digest(stored_key, credential.stored_key)


class ScramClient:
    """The client's side of one exchange: ``first``, ``salted``, ``final``, ``verify`` in this order."""

    def __init__(self, mechanism: ScramMechanism, user: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._nonce = nonce.encode("ascii")
        name = user.replace("=", "=3D").replace(",", "=2C").encode()
        self._bare = b"n=" + name + b",r=" + self._nonce
        self._server_first = b""
        self._server_nonce = b""
        self._signature = b""
        self.salt = b""
        self.iterations = 0

    def first(self) -> bytes:
        return b"n,," + self._bare

    def challenge(self, server_first: bytes) -> None:
        """Take the server's first message: ``salt`` and ``iterations`` are known then. Raises ScramError."""
        found = _matched(_SERVER_FIRST, server_first, "the server's first message")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("SCRAM: the server's nonce does not go on from the client's")
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS_FOR_A_CLIENT:
            raise ScramError(
                f"SCRAM: the server asks for {iterations} iterations",
                hint=f"{LEAST_ITERATIONS} to {MOST_ITERATIONS_FOR_A_CLIENT} are accepted",
            )
        self._server_first, self._server_nonce = server_first, nonce
        self.salt, self.iterations = _decoded(found["salt"], "salt"), iterations

    def final(self, salted: bytes) -> bytes:
        """The client's last message, from :func:`salted_password` with ``salt`` and ``iterations``."""
        mechanism = self._mechanism
        unsigned = b"c=biws,r=" + self._server_nonce
        signed = b",".join((self._bare, self._server_first, unsigned))
        client_key = mechanism.hmac(salted, b"Client Key")
        proof = _xor(client_key, mechanism.hmac(mechanism.hash(client_key), signed))
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), signed)
        return unsigned + b",p=" + b64encode(proof)

    def verify(self, server_final: bytes) -> None:
        """Raise ScramError unless the server has proved that it knows the credential."""
        found = _matched(_SERVER_FINAL, server_final, "the server's last message")
        if found["error"] is not None:
            raise ScramError(f"SCRAM: the server refuses: {found['error'].decode(errors='replace')}")
        if not hmac.compare_digest(_decoded(found["signature"], "signature"), self._signature):
            raise ScramError(
                "SCRAM: the server's signature is wrong: it does not know this user's password",
                hint="the address may lead to a foreign server",
            )


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's first message, checked and taken apart."""

    user: str
    authzid: str  # empty: the user's own name
    nonce: bytes
    extensions: dict[str, str]
    header: bytes
    bare: bytes


def read_client_first(message: bytes) -> ClientFirst:
    """Raises ScramError, also for channel binding (``y``, ``p=``): a broker offers none."""
    found = _matched(_CLIENT_FIRST, message, "the client's first message")
    pairs = (each.split(b"=", 1) for each in found["extensions"].split(b",") if each)
    return ClientFirst(
        user=_name(found["user"]),
        authzid=_name(found["authzid"] or b""),
        nonce=found["nonce"],
        extensions={key.decode(): value.decode() for key, value in pairs},
        header=found["header"],
        bare=found["bare"],
    )


class ScramServer:
    """The server's side of one exchange with a user whose credential is known: ``challenge``, ``finish``.

    For an unknown user the caller goes on with a made-up credential, so that ``finish`` fails as it does for
    a wrong password.
    """

    def __init__(
        self, mechanism: ScramMechanism, first: ClientFirst, credential: ScramCredential, nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._first = first
        self._credential = credential
        self._nonce = first.nonce + nonce.encode("ascii")

    def challenge(self) -> bytes:
        """The server's first message."""
        salt, iterations = b64encode(self._credential.salt), self._credential.iterations
        return b"r=%b,s=%b,i=%d" % (self._nonce, salt, iterations)

    def finish(self, message: bytes) -> bytes:
        """The server's last message, if the client has proved that it knows the password; else ScramError."""
        mechanism, credential = self._mechanism, self._credential
        found = _matched(_CLIENT_FINAL, message, "the client's last message")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise ScramError("SCRAM: the client's last message has another nonce")
        if _decoded(found["binding"], "channel binding") != self._first.header:
            raise ScramError("SCRAM: the client's last message has another channel binding")
        proof = _decoded(found["proof"], "proof")
        if len(proof) != mechanism.hash_size:
            raise ScramError(f"SCRAM: a proof of {len(proof)} bytes instead of {mechanism.hash_size}")
        signed = b",".join((self._first.bare, self.challenge(), found["unsigned"]))
        client_key = _xor(proof, mechanism.hmac(credential.stored_key, signed))
        if not hmac.compare_digest(mechanism.hash(client_key), credential.stored_key):
            raise ScramError("SCRAM: the client's proof is wrong")
        return b"v=" + b64encode(mechanism.hmac(credential.server_key, signed))


def _matched(pattern: re.Pattern[bytes], message: bytes, what: str) -> re.Match[bytes]:
    found = pattern.fullmatch(message) if len(message) <= _LONGEST_MESSAGE else None
    if found is None:
        raise ScramError(f"SCRAM: {what} is malformed ({len(message)} bytes)")
    return found


def _name(saslname: bytes) -> str:
    return saslname.decode("ascii").replace("=2C", ",").replace("=3D", "=")


def _decoded(text: bytes, what: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise ScramError(f"SCRAM: the {what} is not base64") from None


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
