"""SASL on a new connection, and again before a session ends (KIP-368)."""

import asyncio
import json
import random
import secrets
from typing import Protocol, TypeVar

from kohort.client.addresses import Address
from kohort.client.errors import AuthenticationError, ConnectError
from kohort.client.security.oauth import TokenSource
from kohort.client.security.settings import OAUTHBEARER, PLAIN, SecuritySettings
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.security.scram import ScramClient, ScramError, ScramMechanism, salted_password
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

R = TypeVar("R", bound=Message)

_YEAR_MS = 365 * 24 * 3_600_000
_RENEW_AFTER, _RENEW_JITTER = 0.85, 0.10
_MANY_ITERATIONS = 16_384
_RETRY_SECONDS = 1.0
_CACHED = 64


class Peer(Protocol):
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

    async def log_in(self, peer: Peer) -> int:
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

    def _check_handshake(self, peer: Peer, reply: SaslHandshakeResponse) -> None:
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
            raise AuthenticationError(f"{peer.address} refuses the SASL handshake: error {reply.error_code}")

    async def _send(self, peer: Peer, token: bytes) -> SaslAuthenticateResponse:
        reply = await peer.exchange(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        if reply.error_code:
            user = self._settings.sasl_plain_username
            who = f"user {user!r}" if user and self.mechanism != OAUTHBEARER else "the token"
            words = reply.error_message or f"error {reply.error_code}"
            raise AuthenticationError(
                f"{peer.address} does not accept {who} with {self.mechanism}: {words}",
                hint="it is not tried again by itself: check the user, the password and the mechanism",
            )
        return reply

    async def _log_in_with_scram(self, peer: Peer) -> int:
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

    async def _log_in_with_token(self, peer: Peer, initial: bytes) -> int:
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


class Session:
    """The log-in of one connection. Requests call ``ready`` before they are written."""

    def __init__(self, credentials: Credentials, peer: Peer) -> None:
        self._credentials = credentials
        self._peer = peer
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._now = asyncio.get_running_loop().time
        self._renew_at: float | None = None

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
                    await self._renew()
        finally:
            self._waiting -= 1

    async def _renew(self) -> None:
        """The broker takes a new log-in also after the end of the session: nothing is lost by waiting."""
        await self._peer.drained()
        try:
            self._keep(await self._credentials.log_in(self._peer))
        except ConnectError:
            # No new token. The session may still be good; if it is not, the broker closes.
            self._renew_at = self._now() + _RETRY_SECONDS

    def _keep(self, lifetime_ms: int) -> None:
        if lifetime_ms <= 0:
            self._renew_at = None
            return
        part = _RENEW_AFTER + random.random() * _RENEW_JITTER
        self._renew_at = self._now() + min(lifetime_ms, _YEAR_MS) / 1_000 * part
