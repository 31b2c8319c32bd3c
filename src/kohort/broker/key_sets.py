"""The public keys that check tokens: a key set of a file or an address, read again in time (security 3)."""

import asyncio
import http.client
import io
import logging
import os
import socket
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from kohort.log.background import Threads, ThreadStartError, in_thread
from kohort.model.errors import KohortError
from kohort.security.bearer import BearerError, Key, read_key_set
from kohort.security.listeners import is_loopback

logger = logging.getLogger("kohort.sasl")

_LARGEST = 1024 * 1024
_PATIENCE_S = 5.0
_BETWEEN_EARLY_S = 10.0  # a flood of tokens with invented keys must not become a flood of requests
_REMEMBERED_S = 60.0
_MOST_REMEMBERED = 16
_FORM = "give it as https://HOST/PATH or file:/PATH"


class KeySetSettings(NamedTuple):
    """Where the keys are, and when to read them again."""

    url: str
    refresh_s: float = 3_600.0
    retry_s: float = 0.1
    longest_retry_s: float = 10.0


class KeySet:
    """The keys as they were read last. ``start`` raises KohortError; a later failure keeps the old keys."""

    def __init__(self, settings: KeySetSettings) -> None:
        self._settings = settings
        _check_url(settings.url)
        self.keys: Sequence[Key] = ()
        self._stamp = _stamp(settings.url)
        self._threads = Threads(1, "kohort-keys")
        self._reading: asyncio.Task[bool] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._not_before = 0.0  # of an early reading
        self._unknown: OrderedDict[str, float] = OrderedDict()  # ids that a reading did not bring

    async def start(self) -> None:
        try:
            self.keys = await in_thread(self._threads, partial(_read, self._settings.url))
        except (BearerError, ThreadStartError) as error:
            raise KohortError(f"sasl.oauthbearer.jwks.endpoint.url: {error.args[0]}") from None
        self._refreshing = asyncio.create_task(self._refresh())

    def reload(self) -> None:
        """Read a file again if it changed."""
        stamp = _stamp(self._settings.url)
        if stamp != self._stamp:
            self._stamp = stamp
            self._reading = asyncio.create_task(self.read_again())

    def close(self) -> None:
        for task in (self._reading, self._refreshing):
            if task is not None:
                task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def look_for(self, key_id: str) -> None:
        """Read early because of a key that is not known; invented keys cause few readings."""
        now = asyncio.get_running_loop().time()
        if self._reading is None or self._reading.done():
            since = now - self._unknown.get(key_id, -_REMEMBERED_S)
            if since < _REMEMBERED_S or now < self._not_before:
                return
            self._not_before = now + _BETWEEN_EARLY_S
            self._reading = asyncio.create_task(self._read_for(key_id))
        # Shielded: the peer that waits may go, and others wait for the same.
        await asyncio.shield(self._reading)

    async def read_again(self) -> bool:
        """Whether the keys could be read; if not, the old ones stay."""
        try:
            self.keys = await in_thread(self._threads, partial(_read, self._settings.url))
        except (BearerError, ThreadStartError) as error:
            logger.error("the old keys for OAUTHBEARER stay: %s", error.args[0])
            return False
        return True

    async def _read_for(self, key_id: str) -> bool:
        """A key that a good answer does not have is not looked for again soon; after a failure it is."""
        is_read = await self.read_again()
        if is_read and not any(key.get("kid") == key_id for key in self.keys):
            self._unknown.pop(key_id, None)
            self._unknown[key_id] = asyncio.get_running_loop().time()
            if len(self._unknown) > _MOST_REMEMBERED:
                self._unknown.popitem(last=False)
        return is_read

    async def _refresh(self) -> None:
        retry = self._settings.retry_s
        while True:
            if await self._sleep_and_read(self._settings.refresh_s):
                continue
            while not await self._sleep_and_read(retry):
                retry = min(retry * 2, self._settings.longest_retry_s)
            retry = self._settings.retry_s

    async def _sleep_and_read(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return await self.read_again()


def _stamp(url: str) -> tuple[int, int] | None:
    """Changes when a file does; None for an address."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    try:
        found = os.stat(unquote(parts.path))
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_ino)


def _check_url(url: str) -> None:
    """Raises KohortError, which never shows the URL: a part of it may be secret."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        has_strange = not (unquote(url) + str(parts.port)).isprintable() or " " in url
    except ValueError:  # a bad bracket, port or name of a host
        has_strange = True
    if has_strange:
        raise KohortError("sasl.oauthbearer.jwks.endpoint.url is not a URL", hint=_FORM)
    if "@" in parts.netloc:
        raise KohortError(
            "sasl.oauthbearer.jwks.endpoint.url must not contain a user or a password",
            hint="public keys need no log-in; give the address without it",
        )
    if parts.scheme == "file" or (
        host and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
    ):
        return
    raise KohortError(
        "sasl.oauthbearer.jwks.endpoint.url must begin with https:// or file:",
        hint="without encryption an attacker could replace the keys",
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The keys come from the address that was configured, and from no other."""

    def redirect_request(self, *_: object) -> None:
        return None


class _InTime(io.RawIOBase):
    """What a socket receives up to one deadline, so that a peer which sends a byte now and then ends too."""

    def __init__(self, connection: socket.socket, received: io.RawIOBase) -> None:
        self._connection = connection
        self._received = received
        self._deadline = time.monotonic() + _PATIENCE_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


class _Reply(http.client.HTTPResponse):
    """Its headers and its body have one deadline."""

    def __init__(self, connection: socket.socket, *args: Any, **more: Any) -> None:  # noqa: ANN401
        super().__init__(connection, *args, **more)
        self.fp = io.BufferedReader(_InTime(connection, self.fp.detach()))


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HttpConnection, request)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HttpsConnection, request)


class _HttpConnection(http.client.HTTPConnection):
    response_class = _Reply


class _HttpsConnection(http.client.HTTPSConnection):
    response_class = _Reply


def _read(url: str) -> list[Key]:
    """Blocks; raises BearerError."""
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    try:
        if parts.scheme == "file":
            with open(unquote(parts.path), "rb") as file:
                text = file.read(_LARGEST + 1)
        else:
            opener = urllib.request.build_opener(_NoRedirect, _Http, _Https)
            with opener.open(url, timeout=_PATIENCE_S) as reply:
                text = reply.read(_LARGEST + 1)
    except urllib.error.HTTPError as error:
        with error:
            phrase = http.client.responses.get(error.code, "")
            raise BearerError(f"{shown} answered {error.code} {phrase}".rstrip()) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise BearerError(f"{shown} cannot be read: {_reason(error)}") from None
    if len(text) > _LARGEST:
        raise BearerError(f"{shown} is larger than {_LARGEST} bytes")
    try:
        return read_key_set(text)
    except BearerError as error:
        raise BearerError(f"{shown}: {error.args[0]}") from None


def _reason(error: Exception) -> str:
    """Never the text of an exception: it may have the query of the URL in it."""
    cause = getattr(error, "reason", None) if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"there was no whole answer within {_PATIENCE_S:g} s"
    return getattr(cause, "strerror", None) or type(cause).__name__
