"""The gate of a SASL listener: answers the requests of one connection until its peer has logged in.

The states are those of Kafka's SaslServerAuthenticator (security 3). A peer that fails gets its reply, if
there is one, after a delay, and is closed. After the log-in frames go to the dispatch; the gate stays before
it only if the session expires.
"""

import asyncio
import logging
from collections.abc import Awaitable
from enum import Enum
from typing import TYPE_CHECKING, Any

from kohort.broker.connection import BrokerConnection, Buffers, Parked
from kohort.broker.sasl_mechanisms import LoginError, SaslExchange
from kohort.broker.sasl_mechanisms import Step as LoginStep
from kohort.codec.compiled import decode_request, encode
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode, ProtocolError
from kohort.wire.apis import ApiKey, api_spec
from kohort.wire.headers import RequestHeader, read_request_header, response_header
from kohort.wire.messages.api_versions import ApiVersionsResponse
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState
    from kohort.broker.dispatch import Dispatch
    from kohort.broker.notices import Notices
    from kohort.broker.sasl_settings import SaslSettings

logger = logging.getLogger("kohort.sasl")

_BEFORE_REPEATING_MS = 1_000  # between the starts of two re-authentications
_MOST_VERSIONS = 10  # requests for ApiVersions of a peer that asks for a version we do not have
_ERROR_CODE = slice(8, 10)  # of a framed reply to ApiVersions


class _State(Enum):
    FIRST = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "tokens"
    COMPLETE = "requests"
    FAILED = "nothing"


class _Waiting:
    """A reply that comes later: after a delay, or when a password has been checked."""

    held = 0

    def __init__(self, work: Awaitable[Buffers | Parked | None]) -> None:
        self.future: asyncio.Future[Any] = asyncio.ensure_future(work)

    def parts(self) -> Buffers | Parked | None:
        answer: Buffers | Parked | None = self.future.result()
        return answer

    def abandon(self) -> None:
        self.future.cancel()


class Gate:
    """Answers one connection. Implements ``Requests`` of ``connection.py``."""

    def __init__(self, broker: "BrokerState", dispatch: "Dispatch", sasl: "SaslSettings") -> None:
        self._broker = broker
        self._dispatch = dispatch
        self._sasl = sasl
        self._state = _State.FIRST
        self._mechanism = ""
        self._exchange: SaslExchange | None = None
        self._raw = False  # tokens without a header: the peer's handshake was version 0
        self._principal = ""  # once it is known
        self._expires_at: int | None = None
        self._reauthentication_at: int | None = None  # when the last one began
        self._must_close = False
        self._versions_asked = 0

    @property
    def notices(self) -> "Notices":
        return self._dispatch.notices

    def serve(self, frame: bytes, connection: BrokerConnection) -> Buffers | Parked | None:
        match self._state:
            case _State.COMPLETE:
                return self._serve_session(frame, connection)
            case _State.FIRST | _State.HANDSHAKE:
                return self._handshake(frame, connection)
            case _State.AUTHENTICATE:
                return self._take_token(frame, connection)
            case _State.FAILED:
                return None  # what came behind the failed log-in is never looked at

    # The three states

    def _serve_session(self, frame: bytes, connection: BrokerConnection) -> Buffers | Parked | None:
        now = self._now()
        if int.from_bytes(frame[:2], "big") == ApiKey.SASL_HANDSHAKE and self._may_repeat(now):
            self._reauthentication_at = now
            self._state = _State.HANDSHAKE
            return self._handshake(frame, connection)
        if self._expires_at is not None and now >= self._expires_at:
            raise ProtocolError(f"the session of {self._principal} has expired")
        return self._dispatch.serve(frame, connection)

    def _may_repeat(self, now: int) -> bool:
        since = self._reauthentication_at
        return self._expires_at is not None and (since is None or now - since >= _BEFORE_REPEATING_MS)

    def _handshake(self, frame: bytes, connection: BrokerConnection) -> Buffers | Parked | None:
        try:
            header, position = read_request_header(frame)
        except ProtocolError as error:
            return self._fail(connection, None, str(error))
        if header.api_key == ApiKey.API_VERSIONS:
            return self._answer_api_versions(frame, connection)
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            name = api_spec(header.api_key).name
            raise ProtocolError(f"{name} before the log-in (ILLEGAL_SASL_STATE)")
        request = decode_request(SaslHandshakeRequest, header.api_version, frame, position)
        reply = SaslHandshakeResponse(mechanisms=list(self._sasl.mechanisms))
        if request.mechanism not in self._sasl.mechanisms:
            reply.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._fail(connection, _frame(reply, header), f"no mechanism {request.mechanism[:50]!r}")
        if self._mechanism and request.mechanism != self._mechanism:  # of a re-authentication
            self._must_close = True
        self._mechanism = request.mechanism
        self._exchange = self._sasl.exchange(request.mechanism, self._broker)
        self._raw = header.api_version == 0
        self._state = _State.AUTHENTICATE
        return _frame(reply, header)

    def _answer_api_versions(self, frame: bytes, connection: BrokerConnection) -> Buffers | Parked | None:
        if self._state is not _State.FIRST:
            raise ProtocolError("a second ApiVersions before the log-in")
        self._versions_asked += 1
        if self._versions_asked > _MOST_VERSIONS:
            raise ProtocolError(f"more than {_MOST_VERSIONS} ApiVersions before the log-in")
        answer = self._dispatch.serve(frame, connection)
        if isinstance(answer, list) and bytes(answer[0][_ERROR_CODE]) == b"\0\0":
            self._state = _State.HANDSHAKE
        return answer

    def _take_token(self, frame: bytes, connection: BrokerConnection) -> Buffers | Parked | None:
        if self._must_close:
            return self._fail(connection, None, "another mechanism in a re-authentication")
        if self._raw:
            return self._evaluate(frame, None, connection)
        header, position = read_request_header(frame)
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            request = decode_request(SaslAuthenticateRequest, header.api_version, frame, position)
            return self._evaluate(request.auth_bytes, header, connection)
        return self._fail(connection, _illegal(header), "a request in the middle of the log-in")

    # One token

    def _evaluate(
        self, token: bytes, header: RequestHeader | None, connection: BrokerConnection
    ) -> Buffers | Parked | None:
        assert self._exchange is not None
        try:
            step = self._exchange.evaluate(token)
            if not isinstance(step, LoginStep):
                return _Waiting(self._evaluate_later(step, header, connection))
            return self._answer(step, header, connection)
        except LoginError as error:
            return self._refuse(error, header, connection)

    async def _evaluate_later(
        self, step: Awaitable[LoginStep], header: RequestHeader | None, connection: BrokerConnection
    ) -> Buffers | Parked | None:
        try:
            return self._answer(await step, header, connection)
        except LoginError as error:
            return self._refuse(error, header, connection)

    def _answer(
        self, step: LoginStep, header: RequestHeader | None, connection: BrokerConnection
    ) -> Buffers | Parked | None:
        lifetime = 0
        if step.note:
            host = connection.client_host[1:]
            self.notices.warn(logger, f"failed log-ins from {host}", f"log-in from {host}: {step.note}")
        if step.user is not None:
            principal = f"User:{step.user}"
            if self._principal not in ("", principal):
                old, new = (one.replace(":", ".", 1) for one in (self._principal, principal))
                raise LoginError(f"Cannot change principals during re-authentication from {old}: {new}")
            lifetime = self._complete(principal, step.expires_at, connection)
        if header is None:
            return [len(step.reply).to_bytes(4, "big") + step.reply]
        reply = SaslAuthenticateResponse(auth_bytes=step.reply, error_message="")  # as Kafka: not null
        if header.api_version >= 1:
            reply.session_lifetime_ms = lifetime
        return _frame(reply, header)

    def _complete(self, principal: str, expires_at: int | None, connection: BrokerConnection) -> int:
        """Let the peer in; how long for, in milliseconds, or 0 for any time."""
        now = self._now()
        ends = [] if expires_at is None else [expires_at - self._broker.clock.now().wall]
        if self._sasl.max_session_ms > 0:
            ends.append(self._sasl.max_session_ms)
        lifetime = max(min(ends), 0) if ends else 0
        self._expires_at = now + lifetime if ends else None
        self._state = _State.COMPLETE
        self._principal = principal
        self._exchange = None
        self._sasl.half_open.remove(connection)
        connection.authenticated(principal, self if ends else self._dispatch)
        return lifetime

    def _refuse(
        self, error: LoginError, header: RequestHeader | None, connection: BrokerConnection
    ) -> Buffers | Parked | None:
        again = "re-" if self._principal else ""
        text = error.text or (
            f"Authentication failed during {again}authentication due to invalid credentials "
            f"with SASL mechanism {self._mechanism}"
        )
        if header is None:
            return self._fail(connection, None, error.reason)
        reply = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b""
        )
        return self._fail(connection, _frame(reply, header), error.reason)

    def _fail(self, connection: BrokerConnection, reply: Buffers | None, reason: str) -> Parked:
        self._state = _State.FAILED
        host = connection.client_host[1:]
        delay = self._sasl.failed.delay(host, asyncio.get_running_loop().time())
        text = f"failed log-in from {host} at listener {connection.endpoint.listener.name}: {reason}"
        self.notices.warn(logger, f"failed log-ins from {host}", text)
        return _Waiting(_after(delay, reply, connection))

    def _now(self) -> int:
        return self._broker.clock.now().instant


async def _after(delay: float, reply: Buffers | None, connection: BrokerConnection) -> Buffers | None:
    await asyncio.sleep(delay)
    # Behind the writing of the reply, which comes in the same turn of the loop as the end of this.
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: loop.call_soon(connection.close))
    return reply


def _illegal(header: RequestHeader) -> Buffers | None:
    """The API's own reply with ILLEGAL_SASL_STATE, for the two that a client may send too early."""
    code = ErrorCode.ILLEGAL_SASL_STATE
    if header.api_key == ApiKey.SASL_HANDSHAKE:
        return _frame(SaslHandshakeResponse(error_code=code), header)
    is_known = api_spec(header.api_key).versions.includes(header.api_version)
    if header.api_key == ApiKey.API_VERSIONS and is_known:  # the header of any version is read
        return _frame(ApiVersionsResponse(error_code=code), header)
    return None


def _frame(reply: Message, header: RequestHeader) -> Buffers:
    flexible = api_spec(header.api_key).response_header_is_flexible(header.api_version)
    content = response_header(header.correlation_id, flexible) + encode(reply, header.api_version)
    return [len(content).to_bytes(4, "big") + content]
