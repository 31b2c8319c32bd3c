"""From a frame to a reply: find the API, decode, let its handler decide, encode."""

import asyncio
import importlib
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.broker.connection import Buffers, Connection
from kohort.broker.context import Context, Interceptor, RawReply, Response, Result
from kohort.broker.handlers import SERVED, Served
from kohort.model.errors import ErrorCode, ProtocolError, RefusedError
from kohort.wire.apis import ApiKey, ApiSpec, api_spec
from kohort.wire.codec import DecodeError, decode_request, encode_parts
from kohort.wire.headers import read_request_header
from kohort.wire.schema import Message

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

logger = logging.getLogger("kohort.dispatch")

_PREFIX = struct.Struct(">ii")  # size of the frame, correlation id


class Handler(NamedTuple):
    """A served API with its module's two functions."""

    served: Served
    spec: ApiSpec
    handle: Callable[["Broker", Any, Context], Result]
    refuse: Callable[[Any, ErrorCode], Message]


def load_handler(served: Served) -> Handler:
    """Import the module of an API; its name follows from the API's."""
    module = importlib.import_module(served.module)
    return Handler(served, api_spec(served.key), module.handle, module.refuse)


class ParkedRequest:
    """A request that waits; the connection asks for its bytes when the future is done."""

    __slots__ = ("_context", "_dispatch", "_handler", "_request", "future")

    def __init__(
        self,
        future: asyncio.Future[Any],
        dispatch: "Dispatch",
        handler: Handler,
        request: Message,
        context: Context,
    ) -> None:
        self.future = future
        self._dispatch = dispatch
        self._handler = handler
        self._request = request
        self._context = context

    def parts(self) -> Buffers | None:
        response = self._dispatch.guard(self.future.result, self._handler, self._request, self._context)
        if isinstance(response, Awaitable):
            raise TypeError(f"{self._context} resolved to another awaitable")
        return encode_reply(response, self._handler.spec, self._context)


class Dispatch:
    """Routes frames to handlers. One for a broker; it keeps nothing of a request."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._served = {api.key: api for api in SERVED}
        self._handlers: dict[int, Handler] = {}
        self.interceptor: Interceptor | None = None

    def serve(self, frame: bytes, connection: Connection) -> Buffers | ParkedRequest | None:
        """Answer one frame, or raise ProtocolError with a text that names client, API and reason."""
        header, position = read_request_header(frame)
        context = Context(*header, connection)
        handler = self._handler(context)
        if handler is None:
            return self._unsupported(context)
        try:
            request = decode_request(handler.spec.request_class, context.version, frame, position)
        except DecodeError as error:
            raise ProtocolError(f"{context} cannot be read: {error}") from error
        result = self.guard(lambda: self._decide(handler, request, context), handler, request, context)
        if isinstance(result, Awaitable):
            future = asyncio.ensure_future(result)
            return ParkedRequest(future, self, handler, request, context)
        return encode_reply(result, handler.spec, context)

    def guard(
        self, action: Callable[[], Result], handler: Handler, request: Message, context: Context
    ) -> Result:
        """Run a handler; what it raises becomes the API's own error reply, in the request's version."""
        try:
            return action()
        except RefusedError as error:
            return handler.refuse(request, error.code)
        except ProtocolError:
            raise
        except Exception:
            logger.exception("%s failed", context)
            if getattr(request, "acks", None) == 0:
                # Nobody waits for a reply: a closed connection is the only sign the client can see.
                raise ProtocolError(f"{context} failed without a reply to say so") from None
            return handler.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _decide(self, handler: Handler, request: Message, context: Context) -> Result:
        if self.interceptor is None:
            return handler.handle(self._broker, request, context)
        return self.interceptor(context, request, lambda: handler.handle(self._broker, request, context))

    def _handler(self, context: Context) -> Handler | None:
        handler = self._handlers.get(context.api_key)
        if handler is None:
            served = self._served.get(context.api_key)  # type: ignore[call-overload] # IntEnum keys
            if served is None:
                return None
            handler = self._handlers[context.api_key] = load_handler(served)
        served = handler.served
        return handler if served.oldest <= context.version <= served.newest else None

    def _unsupported(self, context: Context) -> Buffers:
        """ApiVersions is answered in any version; for every other API there is no generic error frame."""
        if context.api_key != ApiKey.API_VERSIONS:
            raise ProtocolError(f"{context} is not served here")
        from kohort.broker.handlers.api_versions import unsupported_version

        spec = api_spec(ApiKey.API_VERSIONS)
        context.version = 0
        return encode_reply(unsupported_version(), spec, context) or []


def encode_reply(response: Response, spec: ApiSpec, context: Context) -> Buffers | None:
    """The frame of a reply: size, header (v0 for ApiVersions whatever its version), body."""
    if response is None:
        return None
    if isinstance(response, RawReply):
        body: Buffers = [response.body]
    else:
        body = encode_parts(response, context.version)
    tags = b"\0" if spec.response_header_is_flexible(context.version) else b""
    size = 4 + len(tags) + sum(map(len, body))
    prefix = _PREFIX.pack(size, context.correlation_id) + tags
    if len(body) == 1:
        return [prefix + body[0]]
    return [prefix, *body]
