"""The server's side of PLAIN and SCRAM: tokens in, tokens out, and in the end a user (security 3)."""

import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from kohort.log.background import Threads, ThreadStartError, in_thread
from kohort.log.catalog import UserKey
from kohort.model.errors import KohortError, ProtocolError
from kohort.security.scram import (
    LEAST_ITERATIONS,
    ClientFirst,
    ScramCredential,
    ScramError,
    ScramMechanism,
    ScramServer,
    is_password_of,
    read_client_first,
)
from kohort.security.secret import Secret, SecretError

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM = {mechanism.value: mechanism for mechanism in ScramMechanism}
_OTHER_AUTHZID = "Authentication failed: Client requested an authorization id that is different from username"
_WRONG = "Authentication failed: Invalid username or password"
_THREADS = 2
_OWN_FORM = (16, LEAST_ITERATIONS)  # of the credentials that Kohort makes: size of the salt, iterations
_MOST_WAITING = 64  # passwords that wait to be derived; a flood of log-ins must not fill the memory


class LoginError(KohortError):
    """A log-in that failed. The text goes to the client; without one it gets a general text."""

    def __init__(self, text: str = "", *, reason: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.reason = reason or text


class Step(NamedTuple):
    """What a mechanism answers; ``user`` is there when the log-in is complete."""

    reply: bytes
    user: str | None = None
    expires_at: int | None = None  # milliseconds of wall time
    note: str = ""  # for the log


class SaslExchange(Protocol):
    """One log-in. ``evaluate`` takes the client's tokens one after another; raises LoginError."""

    def evaluate(self, token: bytes) -> Step | Awaitable[Step]: ...


class Users:
    """Who may log in: the SCRAM credentials of the catalog, for PLAIN too, so that no password is stored."""

    def __init__(self, credentials: Mapping[UserKey, ScramCredential], secret: bytes) -> None:
        self._credentials = credentials
        self._secret = secret
        self._threads = Threads(_THREADS, "kohort-passwords")
        self._waiting = 0
        self._usual: dict[ScramMechanism, tuple[int, int]] = {}
        self._usual_of_plain: ScramMechanism | None = None
        self._usual_of = 0  # how many credentials these were counted over

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """The one of the user; for an unknown user one that no password fits, the same each time."""
        known = self._credentials.get((user, mechanism))
        if known is not None:
            return known
        salt_size, iterations = self._usual_form(mechanism)
        salt = hmac.digest(self._secret, f"{mechanism.value} {user}".encode(), "sha512")[:salt_size]
        key = secrets.token_bytes(mechanism.hash_size)
        return ScramCredential(salt, key, key, iterations)

    def _usual_form(self, mechanism: ScramMechanism) -> tuple[int, int]:
        """Size of the salt, and iterations: those of most users, or invented users would differ from them.

        Looked up again when there are more or fewer users, not for each log-in: that would take time.
        """
        self._forget_what_was_usual()
        if mechanism not in self._usual:
            forms = Counter(
                (len(one.salt), one.iterations)
                for (_, kind), one in self._credentials.items()
                if kind is mechanism
            )
            self._usual[mechanism] = max(forms, key=forms.__getitem__, default=_OWN_FORM)
        return self._usual[mechanism]

    def _usual_mechanism_of_plain(self) -> ScramMechanism:
        """What most passwords in clear are checked with: the hashes differ in how long they take."""
        self._forget_what_was_usual()
        if self._usual_of_plain is None:
            users = {user for user, _ in self._credentials}
            with_512 = {user for user, kind in self._credentials if kind is ScramMechanism.SHA_512}
            is_usual = 2 * len(with_512) >= len(users)
            self._usual_of_plain = ScramMechanism.SHA_512 if is_usual else ScramMechanism.SHA_256
        return self._usual_of_plain

    def _forget_what_was_usual(self) -> None:
        if len(self._credentials) != self._usual_of:
            self._usual_of = len(self._credentials)
            self._usual, self._usual_of_plain = {}, None

    async def check_password(self, user: str, password: str) -> bool:
        """Whether a password in clear is the user's; takes as long for a user who does not exist.

        Raises ProtocolError when it cannot be checked now. The connection is then closed without a reply,
        which clients try again: after SASL_AUTHENTICATION_FAILED they would give up.
        """
        kinds = [one for one in reversed(ScramMechanism) if (user, one) in self._credentials]
        mechanism = kinds[0] if kinds else self._usual_mechanism_of_plain()
        credential = self.credential(mechanism, user)
        if self._waiting >= _MOST_WAITING:
            raise ProtocolError(f"{_MOST_WAITING} passwords wait to be checked")
        self._waiting += 1
        try:
            return await in_thread(self._threads, partial(is_password_of, mechanism, credential, password))
        except ThreadStartError as error:
            raise ProtocolError(f"the password cannot be checked now: {error}") from error
        finally:
            self._waiting -= 1


class PlainExchange:
    """RFC 4616. ``fixed`` are the users of ``sasl.jaas.config``."""

    def __init__(self, users: Users, fixed: Mapping[str, Secret]) -> None:
        self._users = users
        self._fixed = fixed

    async def evaluate(self, token: bytes) -> Step:
        parts = token.split(b"\0", 3)
        if len(parts) != 3:
            raise LoginError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        try:
            authzid, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise LoginError(reason="a token that is not UTF-8") from None
        if not user:
            raise LoginError("Authentication failed: username not specified")
        if not password:
            raise LoginError("Authentication failed: password not specified")
        if not await self._is_right(user, password):
            raise LoginError(_WRONG)
        if authzid not in ("", user):
            raise LoginError(_OTHER_AUTHZID)
        return Step(b"", user)

    async def _is_right(self, user: str, password: str) -> bool:
        fixed = self._fixed.get(user)
        try:
            is_fixed = fixed is not None and hmac.compare_digest(
                hmac.digest(b"kohort", fixed.reveal().encode(), "sha256"),
                hmac.digest(b"kohort", password.encode(), "sha256"),
            )
        except SecretError as error:
            raise ProtocolError(f"the password of {user} cannot be checked now: {error}") from error
        return await self._users.check_password(user, password) or is_fixed


class ScramExchange:
    """RFC 5802. A user who does not exist fails where a wrong password does."""

    def __init__(self, users: Users, mechanism: ScramMechanism) -> None:
        self._users = users
        self._mechanism = mechanism
        self._first: ClientFirst | None = None
        self._server: ScramServer | None = None

    def evaluate(self, token: bytes) -> Step:
        try:
            if self._server is None or self._first is None:
                return self._begin(token)
            return Step(self._server.finish(token), self._first.user)
        except ScramError as error:
            raise LoginError(reason=str(error)) from None

    def _begin(self, token: bytes) -> Step:
        first = read_client_first(token)
        if first.extensions.get("tokenauth", "").lower() == "true":
            raise LoginError(reason="there are no delegation tokens")
        if first.authzid not in ("", first.user):
            raise LoginError(_OTHER_AUTHZID)
        credential = self._users.credential(self._mechanism, first.user)
        self._first = first
        self._server = ScramServer(self._mechanism, first, credential, secrets.token_urlsafe(24))
        return Step(self._server.challenge())
