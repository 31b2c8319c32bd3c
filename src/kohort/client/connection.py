"""One connection to a broker: requests out, replies in, in the order of the requests.

Any number of requests may be in flight; a broker answers them one after another. A reply that does not come
in time gives the whole connection up, because none behind it can come either. A connection is never reopened:
its owner (``kohort.client.cluster``) opens another.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import NamedTuple, TypeVar, cast

from kohort import __version__
from kohort.client.addresses import Address
from kohort.client.errors import (
    ApiNotServedError,
    ConnectError,
    DisconnectedError,
    RequestTimeoutError,
    SecurityError,
    check,
)
from kohort.client.security.entry import ClientSecurity
from kohort.client.security.sasl import SaslSession
from kohort.client.settings import DEFAULTS, ClientOptions
from kohort.codec.compiled import decode, encode_parts
from kohort.codec.schema import Message, Versions
from kohort.model.errors import ErrorCode, KohortError, ProtocolError, reason_of
from kohort.wire.apis import APIS, ApiKey, ApiSpec
from kohort.wire.framing import FrameBuffer
from kohort.wire.headers import RequestHeader, read_response_header, request_header
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_SIZE = Struct(">i")

R = TypeVar("R", bound=Message)
Dial = Callable[[asyncio.Protocol, Address], Awaitable[None]]
"""Connects a protocol to an address: TCP, or a peer that lives in a test. Raises OSError."""

_ERROR_CODE = Struct(">h")


async def dial_tcp(protocol: asyncio.Protocol, address: Address) -> None:
    await asyncio.get_running_loop().create_connection(lambda: protocol, address.host, address.port)


class _Awaited(NamedTuple):
    """A request whose reply has not come yet."""

    correlation_id: int
    spec: ApiSpec
    version: int
    reply: asyncio.Future[Message]


class ClientConnection(asyncio.Protocol):
    """Made by :func:`open_connection`, which also learns what the broker serves."""

    def __init__(self, address: Address, options: ClientOptions) -> None:
        self.address = address
        self.api_versions: dict[int, Versions] = {}
        self.features: dict[str, Versions] = {}  # supported by the broker, KIP-584
        self.feature_levels: dict[str, int] = {}  # in force in the cluster; one that is off is left out
        self._options = options
        self._frames = FrameBuffer.for_replies()
        self._awaited: deque[_Awaited] = deque()
        self._correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._ended: KohortError | None = None
        self._session: SaslSession | None = None
        self._replies = 0

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<ClientConnection to {self.address}: {state}, {len(self._awaited)} in flight>"

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._ended is None

    @property
    def in_flight(self) -> int:
        """How many replies are still to come."""
        return len(self._awaited)

    def version_of(self, api_key: int, highest: int | None = None) -> int:
        """The highest version both sides speak, and at most ``highest``; raises ApiNotServedError."""
        spec = APIS[api_key]
        first, last = spec.versions
        wanted = Versions(first, last if highest is None else min(last, highest))
        served = self.api_versions.get(api_key)
        if served is None or served.first > wanted.last or served.last < wanted.first:
            raise ApiNotServedError(spec, wanted, served, self.address)
        return min(wanted.last, served.last)

    async def send(
        self, request: Message, expect: type[R], *, highest: int | None = None, timeout_ms: int | None = None
    ) -> R:
        """Send in the highest common version and wait for the reply; ``expect`` is its class.

        ``highest`` caps the version where a newer one needs what the caller does not have. Error codes in
        the reply are the caller's business. A long poll says in ``timeout_ms`` how long it may take. Raises
        DisconnectedError, RequestTimeoutError, ApiNotServedError or ProtocolError. Cancelling only drops
        the reply.
        """
        assert request.api_key is not None, "only requests can be sent"
        version = self.version_of(request.api_key, highest)
        if self._session is not None and not self._session.is_ready:
            await self._log_in_again()
        patience = self._options.request_timeout_ms if timeout_ms is None else timeout_ms
        return cast(R, await self._exchange(request, version, patience / 1_000))

    async def post(self, request: Message, *, highest: int | None = None) -> None:
        """Write a request that has no reply: Produce with acks=0. Raises as ``send`` does."""
        assert request.api_key is not None, "only requests can be sent"
        if self._session is not None and not self._session.is_ready:
            await self._log_in_again()
        self._transmit(request, self.version_of(request.api_key, highest))

    async def negotiate(self) -> None:
        """Learn which versions the broker serves. Called once, before anything else is sent."""
        request = ApiVersionsRequest(client_software_name="kohort", client_software_version=__version__)
        version = APIS[ApiKey.API_VERSIONS].versions.last
        patience = self._options.request_timeout_ms / 1_000
        response = cast(ApiVersionsResponse, await self._exchange(request, version, patience))
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # The broker is older and says in a body of version 0 what it has: ask again, lower.
            offered = {api.api_key: api.max_version for api in response.api_keys}
            version = min(version, offered.get(ApiKey.API_VERSIONS, 0))
            response = cast(ApiVersionsResponse, await self._exchange(request, version, patience))
        check(response.error_code, f"ask {self.address} for its API versions")
        self.api_versions = {
            api.api_key: Versions(api.min_version, api.max_version) for api in response.api_keys
        }
        self.features = {
            feature.name: Versions(feature.min_version, feature.max_version)
            for feature in response.supported_features
        }
        self.feature_levels = {each.name: each.max_version_level for each in response.finalized_features}

    async def log_in(self, security: ClientSecurity) -> None:
        """Start a session, if the settings ask for one. Raises AuthenticationError."""
        self._session = await security.log_in(self)

    async def _log_in_again(self) -> None:
        assert self._session is not None
        try:
            await self._session.ready()
        except Exception as error:  # the log-in is half done: the broker takes nothing else on it
            failed = f"the log-in at {self.address} could not be renewed ({type(error).__name__})"
            self._end(error if isinstance(error, KohortError) else DisconnectedError(failed))
            raise

    # What a log-in needs

    async def exchange(self, request: Message, expect: type[R]) -> R:
        """Send, also while a log-in lets other requests wait; else like ``send``."""
        assert request.api_key is not None
        version = self.version_of(request.api_key)
        return cast(R, await self._exchange(request, version, self._options.request_timeout_ms / 1_000))

    async def drained(self) -> None:
        """Wait for the replies to all that was sent; a failed one is for its own caller."""
        while self._awaited:
            await asyncio.wait([self._awaited[-1].reply])
            if self._awaited and self._awaited[-1].reply.done():
                return  # cancelled: its reply is still to come, in its turn

    def close(self) -> None:
        """Close it; requests in flight fail with DisconnectedError."""
        self._end(DisconnectedError(f"the connection to {self.address} was closed on this side"))

    async def _exchange(self, request: Message, version: int, seconds: float) -> Message:
        awaited = self._write(request, version)
        try:
            async with asyncio.timeout(seconds):
                return await awaited.reply
        except TimeoutError:
            late = RequestTimeoutError(awaited.spec.name, self.address, seconds)
            self._end(DisconnectedError(f"the connection to {self.address} was given up: {late}"))
            raise late from None

    def _write(self, request: Message, version: int) -> _Awaited:
        correlation_id, spec = self._transmit(request, version)
        awaited = _Awaited(correlation_id, spec, version, asyncio.get_running_loop().create_future())
        self._awaited.append(awaited)
        return awaited

    def _transmit(self, request: Message, version: int) -> tuple[int, ApiSpec]:
        if self._ended is not None or self._transport is None:
            raise DisconnectedError(f"the connection to {self.address} is closed") from self._ended
        assert request.api_key is not None
        spec = APIS[request.api_key]
        correlation_id = self._correlation_id
        header = request_header(RequestHeader(spec.key, version, correlation_id, self._options.client_id))
        body = encode_parts(request, version)
        size = len(header) + sum(map(len, body))
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self._transport.writelines([_SIZE.pack(size) + header, *body])
        return correlation_id, spec

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, received: bytes) -> None:
        self._frames.feed(received)
        try:
            while (frame := self._frames.next_frame()) is not None:
                self._receive(frame)
        except ProtocolError as error:
            self._end(ProtocolError(f"{self.address}: {error.args[0]}", hint=error.hint))

    def connection_lost(self, exc: Exception | None) -> None:
        why = f" ({exc})" if exc is not None else ""
        security = self._options.security
        if security is not None and isinstance(exc, ssl.SSLError):
            self._end(security.explained(exc, self.address) or DisconnectedError(str(exc)))
            return
        if not self._awaited:
            self._end(DisconnectedError(f"{self.address} closed the connection{why}"))
            return
        asked = self._awaited[0]
        self._end(
            DisconnectedError(
                f"{self.address} closed the connection before it answered {asked.spec.name} "
                f"v{asked.version}{why}",
                hint=self._why_closed(),
            )
        )

    # What we do with it

    def _why_closed(self) -> str:
        security = self._options.security
        if self._replies == 0:
            if security is not None and security.uses_tls:
                if security.has_certificate:
                    return (
                        "does the broker trust the authority of ssl_certfile, and is the certificate valid?"
                    )
                return "does the broker require a client certificate (ssl_certfile)?"
            return "is it a Kafka broker, and is this its plaintext listener? For TLS set security_protocol"
        if self._replies == 1 and (security is None or not security.uses_sasl):
            return "does the listener require a log-in (security_protocol=SASL_SSL or SASL_PLAINTEXT)?"
        return "the broker stopped, or refused the request; its log says which"

    def _receive(self, frame: bytes) -> None:
        if not self._awaited:
            raise ProtocolError("the peer sent a reply without a request")
        correlation_id, spec, version, reply = self._awaited.popleft()
        self._replies += 1
        if reply.done():
            return  # cancelled: it is not awaited any more
        try:
            answered, position = read_response_header(frame, spec.response_header_is_flexible(version))
            if answered != correlation_id:
                raise ProtocolError(f"reply {answered} came where {correlation_id} was due")
            if spec.key is ApiKey.API_VERSIONS and _is_refused_version(frame, position):
                version = 0
            reply.set_result(decode(spec.response_class, version, frame, position))
        except ProtocolError as error:
            reply.set_exception(error)
            raise

    def _end(self, error: KohortError) -> None:
        if self._ended is not None:
            return
        self._ended = error
        while self._awaited:
            reply = self._awaited.popleft().reply
            if not reply.done():
                reply.set_exception(error)
        if self._transport is not None:
            self._transport.abort()


def _is_refused_version(frame: bytes, position: int) -> bool:
    """Whether an ApiVersions reply is UNSUPPORTED_VERSION: it then has version 0, whatever was asked."""
    body = frame[position : position + _ERROR_CODE.size]
    return body == _ERROR_CODE.pack(ErrorCode.UNSUPPORTED_VERSION)


async def open_connection(
    address: Address, options: ClientOptions = DEFAULTS, *, dial: Dial = dial_tcp
) -> ClientConnection:
    """Connect, negotiate versions and log in.

    Raises ConnectError, SecurityError, or what went wrong after connecting.
    """
    if options.security is not None:
        return await _open_secured(address, options, options.security, dial)
    connection = await _connected(address, options, dial)
    try:
        await connection.negotiate()
    except BaseException:
        connection.close()
        raise
    return connection


async def _open_secured(
    address: Address, options: ClientOptions, security: ClientSecurity, dial: Dial
) -> ClientConnection:
    """One clock for all steps; after a refusal the same client waits before it dials there again."""
    await security.pause(address)
    connection: ClientConnection | None = None
    try:
        async with asyncio.timeout(options.connect_timeout_ms / 1_000):
            connection = await _connected(address, options, security.dial if security.uses_tls else dial)
            await connection.negotiate()
            await connection.log_in(security)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, TimeoutError):
            late = f"no TLS connection and log-in within {options.connect_timeout_ms} ms"
            raise _unreachable(address, late) from None
        if isinstance(error, SecurityError):
            security.refused(address, options.retry_backoff_max_ms)
        raise
    return connection


async def _connected(address: Address, options: ClientOptions, dial: Dial) -> ClientConnection:
    connection = ClientConnection(address, options)
    try:
        async with asyncio.timeout(options.connect_timeout_ms / 1_000):
            await dial(connection, address)
    except TimeoutError:
        raise _unreachable(address, f"no answer within {options.connect_timeout_ms} ms") from None
    except OSError as error:
        explained = None if options.security is None else options.security.explained(error, address)
        if explained is not None:
            raise explained from error
        raise _unreachable(address, reason_of(error)) from error
    return connection


def _unreachable(address: Address, reason: str) -> ConnectError:
    return ConnectError(
        f"cannot connect to {address}: {reason}", hint="is a broker running there, and is the port right?"
    )
