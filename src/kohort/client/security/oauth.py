"""Where the tokens of OAUTHBEARER come from: a program's provider, a file, or a token endpoint."""

import asyncio
import base64
import inspect
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from kohort.client.errors import AuthenticationError, ConnectError, SettingError
from kohort.client.security.settings import SecuritySettings
from kohort.security.listeners import is_loopback
from kohort.security.secret import Secret

_PATIENCE_SECONDS = 10.0
_LARGEST_ANSWER = 1024 * 1024
# A token is asked for again after this part of its life, plus up to 5 %; never in its last five minutes.
_REFRESH_AFTER, _REFRESH_JITTER = 0.80, 0.05
_BUFFER_SECONDS, _LEAST_SECONDS = 300.0, 60.0
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
                answer = await asyncio.to_thread(_fetch, settings)
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


def _fetch(settings: SecuritySettings) -> _Answer:
    """The client credentials grant of RFC 6749, section 4.4. Blocks."""
    url, secret = settings.sasl_oauth_token_endpoint, settings.secret("sasl_oauth_client_secret")
    assert url is not None
    assert secret is not None
    form = {"grant_type": "client_credentials"}
    if settings.sasl_oauth_scope:
        form["scope"] = settings.sasl_oauth_scope
    login = base64.b64encode(f"{settings.sasl_oauth_client_id}:{secret.reveal()}".encode()).decode()
    request = urllib.request.Request(
        url,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=_PATIENCE_SECONDS) as response:
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
