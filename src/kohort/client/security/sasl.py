"""SASL on a new connection, and again before a session ends (KIP-368); where tokens come from."""

import asyncio
import base64
import inspect
import json
import random
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from kohort.client.addresses import Address
from kohort.client.errors import AuthenticationError, ConnectError, SettingError, code_name
from kohort.client.security.settings import OAUTHBEARER, PLAIN, SecuritySettings
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.security.listeners import is_loopback
from kohort.security.scram import ScramClient, ScramError, ScramMechanism, salted_password
from kohort.security.secret import Secret
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_ENDPOINT_SECONDS = 10.0
_LARGEST_ANSWER = 1024 * 1024
# A token is asked for again after this part of its life, plus up to 5 %; never in its last five minutes.
_REFRESH_AFTER, _REFRESH_JITTER = 0.80, 0.05
_BUFFER_SECONDS, _LEAST_SECONDS = 300.0, 60.0
_FIRST_PAUSE_SECONDS, _ALL_PAUSES_SECONDS = 0.1, 10.0
_PERMANENT = frozenset({400, 401, 402, 403, 404, 405, 406, 410, 413, 414, 415, 422, 501, 505})


@dataclass(frozen=True)
class UnsecuredToken:
    """A token without signature, for development: brokers that take it let anybody in."""

    subject: str
    lifetime_seconds: int = 3600

    def token(self) -> str:
        now = int(time.time())
        claims = {"sub": self.subject, "iat": now, "exp": now + self.lifetime_seconds}
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


class TokenSource:
    """The token for the next log-in. One for all connections of a client."""

    def __init__(self, settings: SecuritySettings) -> None:
        self._settings = settings
        self._kept: Secret | None = None
        self._refresh_at = 0.0
        self._asking: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        if settings.sasl_oauth_token_endpoint is not None:
            _check_endpoint(settings.sasl_oauth_token_endpoint)

    async def token(self) -> str:
        """Raises AuthenticationError if the source refuses, ConnectError if it cannot be reached."""
        settings = self._settings
        if settings.sasl_oauth_token_provider is not None:
            return await _ask(settings.sasl_oauth_token_provider)
        fixed = settings.secret("sasl_oauth_token")
        if fixed is not None:
            return fixed.reveal().strip()
        async with self._lock():
            if self._kept is None or time.monotonic() >= self._refresh_at:
                answer = await _fetch_patiently(settings)
                self._kept = Secret(answer.token)
                self._refresh_at = time.monotonic() + _refresh_in(answer.lifetime_seconds)
            return self._kept.reveal()

    def _lock(self) -> asyncio.Lock:
        """Of the loop that runs now: a client may be closed and started again on another."""
        loop = asyncio.get_running_loop()
        if self._asking is None or self._loop is not loop:
            self._asking, self._loop = asyncio.Lock(), loop
        return self._asking

    async def extensions(self) -> dict[str, str]:
        provider = self._settings.sasl_oauth_token_provider
        of_provider = getattr(provider, "extensions", None)
        found = of_provider() if callable(of_provider) else None
        if inspect.isawaitable(found):
            found = await found
        return {**dict(self._settings.sasl_oauth_extensions or {}), **(found or {})}


async def _ask(provider: Any) -> str:  # noqa: ANN401 (what the user gave)
    made = provider.token() if hasattr(provider, "token") else provider()
    token = await made if inspect.isawaitable(made) else made
    if not isinstance(token, str) or not token:
        raise AuthenticationError(
            f"sasl_oauth_token_provider gave {type(token).__name__} instead of a token",
            hint="its method token() returns text",
        )
    return token


@dataclass(frozen=True, slots=True, repr=False)
class _Answer:
    token: str
    lifetime_seconds: float


def _refresh_in(lifetime: float) -> float:
    wanted = lifetime * (_REFRESH_AFTER + random.random() * _REFRESH_JITTER)
    if lifetime < _BUFFER_SECONDS + _LEAST_SECONDS:
        return wanted
    return max(_LEAST_SECONDS, min(wanted, lifetime - _BUFFER_SECONDS))


def _check_endpoint(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return
    raise SettingError(
        "sasl_oauth_token_endpoint must begin with https://", hint="the client's secret is sent there"
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The secret goes to the endpoint that was configured, and nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


async def _fetch_patiently(settings: SecuritySettings) -> _Answer:
    """Try again, as Java does, while the endpoint cannot be reached or fails."""
    pause, waited = _FIRST_PAUSE_SECONDS, 0.0
    while True:
        try:
            return await asyncio.to_thread(_fetch, settings)
        except ConnectError:
            if waited + pause > _ALL_PAUSES_SECONDS:
                raise
        await asyncio.sleep(pause)
        waited, pause = waited + pause, 2 * pause


def _fetch(settings: SecuritySettings) -> _Answer:
    """The client credentials grant of RFC 6749, section 4.4. Blocks."""
    url, secret = settings.sasl_oauth_token_endpoint, settings.secret("sasl_oauth_client_secret")
    assert url is not None
    assert secret is not None
    form = {"grant_type": "client_credentials"}
    if settings.sasl_oauth_scope:
        form["scope"] = settings.sasl_oauth_scope
    names = (settings.sasl_oauth_client_id or "", secret.reveal())
    if settings.sasl_oauth_header_urlencode:  # as RFC 6749 demands, and few endpoints do
        names = (urllib.parse.quote_plus(names[0]), urllib.parse.quote_plus(names[1]))
    login = base64.b64encode(":".join(names).encode()).decode()
    request = urllib.request.Request(
        url,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=_ENDPOINT_SECONDS) as response:
            body = response.read(_LARGEST_ANSWER)
    except urllib.error.HTTPError as error:
        with error:
            what = f"the token endpoint {_shown(url)} answered {error.code} {error.reason}"
        if error.code in _PERMANENT or 300 <= error.code < 400:
            raise AuthenticationError(what, hint="check the client's id, secret and scope") from None
        raise ConnectError(what, hint="it may work again later") from None
    except OSError as error:
        why = getattr(error, "reason", None) or error
        raise ConnectError(
            f"cannot reach the token endpoint {_shown(url)}: {why}", hint="is the address right?"
        ) from None
    return _read_answer(url, body)


def _read_answer(url: str, body: bytes) -> _Answer:
    try:
        answer = json.loads(body)
        token, lifetime = answer["access_token"], float(answer.get("expires_in", 300))
    except (ValueError, KeyError, TypeError, AttributeError):
        token, lifetime = None, 0.0
    if not isinstance(token, str) or not token:
        raise AuthenticationError(f"the answer of the token endpoint {_shown(url)} has no access_token")
    return _Answer(token, lifetime)


def _shown(url: str) -> str:
    """Without a password or a query that may be in it."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


R = TypeVar("R", bound=Message)

_YEAR_MS = 365 * 24 * 3_600_000
_RENEW_AFTER, _RENEW_JITTER = 0.85, 0.10
_MANY_ITERATIONS = 16_384
_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 30.0  # of a new log-in, the source of its token included
_CACHED = 64


class SaslPeer(Protocol):
    """A connection as the log-in needs it."""

    @property
    def address(self) -> Address: ...

    async def exchange(self, request: Message, expect: type[R]) -> R:
        """Send now, whatever waits."""

    async def drained(self) -> None:
        """Wait until all requests that were sent have their replies."""


class Credentials:
    """How a client logs in: made once, for all its connections."""

    def __init__(self, settings: SecuritySettings) -> None:
        assert settings.sasl_mechanism is not None
        self.mechanism = settings.sasl_mechanism
        self._settings = settings
        self._tokens = TokenSource(settings) if self.mechanism == OAUTHBEARER else None
        self._salted: dict[tuple[str, bytes, int], bytes] = {}

    async def log_in(self, peer: SaslPeer) -> int:
        """Returns the session's lifetime in ms, 0 for no end. Raises AuthenticationError."""
        initial = None if self._tokens is None else await self._bearer()  # before the broker waits for it
        shaken = await peer.exchange(SaslHandshakeRequest(mechanism=self.mechanism), SaslHandshakeResponse)
        self._check_handshake(peer, shaken)
        if initial is not None:
            return await self._log_in_with_token(peer, initial)
        if self.mechanism == PLAIN:
            token = f"\0{self._settings.sasl_plain_username}\0{self._password()}".encode()
            return (await self._send(peer, token)).session_lifetime_ms
        return await self._log_in_with_scram(peer)

    def _password(self) -> str:
        secret = self._settings.secret("sasl_plain_password")
        assert secret is not None
        return secret.reveal()

    def _check_handshake(self, peer: SaslPeer, reply: SaslHandshakeResponse) -> None:
        if reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(reply.mechanisms) or "none"
            raise AuthenticationError(
                f"{peer.address} does not offer the SASL mechanism {self.mechanism}",
                hint=f"it offers {offered}",
            )
        if reply.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationError(
                f"the listener {peer.address} has no SASL",
                hint="set security_protocol to SSL or PLAINTEXT, or use the broker's SASL listener",
            )
        if reply.error_code:
            raise AuthenticationError(
                f"{peer.address} refuses the SASL handshake: {code_name(reply.error_code)}"
            )

    async def _send(self, peer: SaslPeer, token: bytes) -> SaslAuthenticateResponse:
        reply = await peer.exchange(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        if reply.error_code:
            user = self._settings.sasl_plain_username
            who = f"user {user!r}" if user and self.mechanism != OAUTHBEARER else "the token"
            words = reply.error_message or code_name(reply.error_code)
            raise AuthenticationError(
                f"{peer.address} does not accept {who} with {self.mechanism}: {words}",
                hint="it is not tried again by itself: check the user, the password and the mechanism",
            )
        return reply

    async def _log_in_with_scram(self, peer: SaslPeer) -> int:
        mechanism = ScramMechanism(self.mechanism)
        client = ScramClient(mechanism, self._settings.sasl_plain_username or "", secrets.token_urlsafe(24))
        try:
            client.challenge((await self._send(peer, client.first())).auth_bytes)
            salted = await self._salted_password(mechanism, client.salt, client.iterations)
            reply = await self._send(peer, client.final(salted))
            client.verify(reply.auth_bytes)
        except ScramError as error:
            raise AuthenticationError(f"{peer.address}: {error.args[0]}", hint=error.hint) from None
        return reply.session_lifetime_ms

    async def _salted_password(self, mechanism: ScramMechanism, salt: bytes, iterations: int) -> bytes:
        password = self._password()
        key = (password, salt, iterations)
        found = self._salted.get(key)
        if found is None:
            if iterations > _MANY_ITERATIONS:
                found = await asyncio.to_thread(salted_password, mechanism, password, salt, iterations)
            else:
                found = salted_password(mechanism, password, salt, iterations)
            if len(self._salted) >= _CACHED:
                self._salted.clear()
            self._salted[key] = found
        return found

    async def _bearer(self) -> bytes:
        assert self._tokens is not None
        token, extensions = await self._tokens.token(), await self._tokens.extensions()
        pairs = "".join(f"{key}={value}\x01" for key, value in extensions.items())
        return f"n,,\x01auth=Bearer {token}\x01{pairs}\x01".encode()

    async def _log_in_with_token(self, peer: SaslPeer, initial: bytes) -> int:
        reply = await self._send(peer, initial)
        if reply.auth_bytes:  # a refusal: RFC 7628 wants one more byte, and the broker says why again
            status = _status(reply.auth_bytes)
            try:
                await self._send(peer, b"\x01")
            except AuthenticationError as error:
                raise AuthenticationError(
                    f"{peer.address} does not accept the token: {status}", hint=error.hint
                ) from None
            raise AuthenticationError(f"{peer.address} does not accept the token: {status}")
        return reply.session_lifetime_ms


def _status(challenge: bytes) -> str:
    try:
        return str(json.loads(challenge)["status"])
    except (ValueError, KeyError, TypeError):
        return "no reason given"


def _seen(renewal: "asyncio.Task[None]") -> None:
    """Take note of a failure; the next request raises it."""
    if not renewal.cancelled():
        renewal.exception()


class SaslSession:
    """The log-in of one connection. Requests call ``ready`` before they are written."""

    def __init__(self, credentials: Credentials, peer: SaslPeer) -> None:
        self._credentials = credentials
        self._peer = peer
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._now = asyncio.get_running_loop().time
        self._renew_at: float | None = None
        self._renewal: asyncio.Task[None] | None = None  # under way, or the one that failed

    async def begin(self) -> None:
        self._keep(await self._credentials.log_in(self._peer))

    @property
    def is_ready(self) -> bool:
        """Whether a request may be written at once: no log-in is due, under way, or waited for."""
        return not self._waiting and (self._renew_at is None or self._now() < self._renew_at)

    async def ready(self) -> None:
        """Return when the session is good; requests that wait go on in their order."""
        self._waiting += 1
        try:
            async with self._turn:
                if self._renew_at is not None and self._now() >= self._renew_at:
                    if self._renewal is None:
                        self._renewal = asyncio.create_task(self._renew())
                        self._renewal.add_done_callback(_seen)
                    # Shielded: who is cancelled must not leave a log-in half done for those who follow.
                    await asyncio.shield(self._renewal)
        finally:
            self._waiting -= 1

    async def _renew(self) -> None:
        """The broker takes a new log-in also after the end of the session: nothing is lost by waiting."""
        await self._peer.drained()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                self._keep(await self._credentials.log_in(self._peer))
        except ConnectError:
            # No new token. The session may still be good; if it is not, the broker closes.
            self._renew_at = self._now() + _RETRY_SECONDS
        except TimeoutError:
            raise ConnectError(
                f"{self._peer.address}: a new log-in took more than {_PATIENCE_SECONDS:g} s",
                hint="check the source of the tokens",
            ) from None
        self._renewal = None

    def _keep(self, lifetime_ms: int) -> None:
        if lifetime_ms <= 0:
            self._renew_at = None
            return
        part = _RENEW_AFTER + random.random() * _RENEW_JITTER
        self._renew_at = self._now() + min(lifetime_ms, _YEAR_MS) / 1_000 * part
