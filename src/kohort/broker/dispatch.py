"""From a frame to a reply: find the API, decode, let its handler decide, encode."""

import asyncio
import importlib
import logging
import struct
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.broker.connection import BrokerConnection, Buffers, Parked
from kohort.broker.context import Context, DeferredResponse, Interceptor, RawReply, Response, Result
from kohort.broker.handlers import SERVED, Served, Wait
from kohort.broker.heavy_work import HeavyTurn
from kohort.broker.memory_budget import SMALL
from kohort.broker.recognition import Grounds, Validity
from kohort.broker.reply_prices import LARGE_REPLY
from kohort.cluster.view import ClusterSnapshot
from kohort.codec.compiled import NO_LIMIT, DecodeError, TooManyElementsError, decode_request, encode_parts
from kohort.codec.schema import Message
from kohort.log.background import describe
from kohort.model.errors import ErrorCode, ProtocolError, RefusedError
from kohort.wire.apis import ApiKey, api_spec
from kohort.wire.headers import read_request_header

if TYPE_CHECKING:
    from kohort.broker.broker import BrokerState
    from kohort.security.acls import Authorizer

logger = logging.getLogger("kohort.dispatch")

_PREFIX = struct.Struct(">ii")  # size of the frame, correlation id
_NEVER = 2**15  # above any version
AT_ONCE = 1_000  # elements of arrays that are read or written without a thread: some milliseconds
_REPLIES = (Message, RawReply)  # a tuple: the union would be made again for every request

_WHILE_IN_WORK = 2  # times its size: the frame, and the batches made of it


class Handler(NamedTuple):
    """A served API with the functions of its module; what a request needs is looked up once, here."""

    served: Served
    request_class: type[Message]
    first_tagged_reply: int  # the version from which on the header of a reply has a tag section
    handle: Callable[["BrokerState", Any, Context], Result]
    refuse: Callable[[Any, ErrorCode], Message]
    remember: Callable[..., Any] | None = None  # keeps a frame, so that it is recognised when it comes again


def load_handler(served: Served) -> Handler:
    """Import the module of an API; its name follows from the API's."""
    module = importlib.import_module(served.module)
    spec = api_spec(served.key)
    versions = range(served.oldest, served.newest + 1)
    tagged = next((version for version in versions if spec.response_header_is_flexible(version)), _NEVER)
    remember = getattr(module, "remember", None)
    return Handler(
        served,
        spec.request_class,
        tagged,
        module.handle,
        module.refuse,
        remember,
    )


def _guard(authorizer: "Authorizer | None") -> Callable[[Handler], Handler]:
    """What puts a handler behind its rule; only a broker with an authorizer pays for loading the rules."""
    if authorizer is None:
        return lambda handler: handler
    from kohort.broker.authorization import check_rules, guarded

    check_rules(SERVED)
    return partial(guarded, authorizer=authorizer)


class ParkedRequest:
    """A request that waits; the connection asks for its bytes when the future is done."""

    __slots__ = ("_check", "_context", "_encode", "_handler", "_make", "_request", "future", "held")

    def __init__(
        self,
        result: Awaitable[Response],
        reply: "tuple[Callable[[Handler], None], Encode]",
        handler: Handler,
        request: Message,
        context: Context,
    ) -> None:
        self.future: asyncio.Future[Any]
        self._make: Callable[[Any], Message] | None = None
        if isinstance(result, DeferredResponse):
            self.future, self._make = result.future, result.make
        else:
            self.future = asyncio.ensure_future(result)
        self._check, self._encode = reply
        self._handler = handler
        self._request: Message | None = request
        self._context = context
        self.held = 0

    def is_large(self, size: int) -> None:
        """Its frame has ``size`` bytes: it is let go of, or counts while it is worked on."""
        if self._handler.served.wait is not Wait.NO:
            # Decoded, a list takes many times its bytes: for minutes only what its handler needs is kept.
            # (To refuse it then, its connection is closed.)
            self._request = None
        else:
            self.held = _WHILE_IN_WORK * size

    def parts(self) -> Buffers | Parked | None:
        try:
            response = self.future.result()
            if self._make is not None:
                response = self._make(response)
            self._check(self._handler)
        except Exception as error:
            if self._request is None:
                raise ProtocolError(f"{self._context} waited and failed: {error}") from error
            response = refusal(error, self._handler, self._request, self._context)
        return self._encode(response, self._handler, self._context)

    def abandon(self) -> None:
        """What was begun is finished, or a topic could be half made; only a wait for news is given up."""
        if self._handler.served.wait is Wait.ONLY:
            self.future.cancel()


class LargeMessage:
    """A request that is being read, or a reply that is being written, in a thread."""

    __slots__ = ("_context", "_only_waits", "future", "held")

    def __init__(
        self,
        work: Coroutine[Any, Any, Buffers | Parked | None],
        handler: Handler,
        held: int = 0,
        context: Context | None = None,
    ) -> None:
        self.held = held
        self.future: asyncio.Future[Any] = asyncio.ensure_future(work)
        self._only_waits = handler.served.wait is Wait.ONLY
        self._context = context  # of a small request that has not been begun before it has its turn

    def parts(self) -> Buffers | Parked | None:
        try:
            answer: Buffers | Parked | None = self.future.result()
        except (OSError, MemoryError) as error:  # no thread, no memory: the client asks again
            raise ProtocolError(f"a large message cannot be read or written: {describe(error)}") from error
        return answer

    def abandon(self) -> None:
        """As of any request; and a large reply that has not been begun is not made."""
        if self._only_waits or (self._context is not None and self._context.turn is None):
            self.future.cancel()


Encode = Callable[[Response, Handler, Context], Buffers | Parked | None]


class Dispatch:
    """Routes frames to handlers. One for a broker; it keeps nothing of a request."""

    def __init__(self, broker: "BrokerState") -> None:
        self._broker = broker
        self._guarded = _guard(broker.authorizer)
        self._may_answer = broker.catalog.may_answer
        self.notices = broker.notices
        self._served: dict[int, Served] = {api.key: api for api in SERVED}
        self._handlers: dict[int, Handler] = {}
        self._running: set[asyncio.Future[Any]] = set()
        self._interceptor: Interceptor | None = None
        self._validity = Validity()
        broker.catalog.watch(self._view_changed)

    @property
    def interceptor(self) -> Interceptor | None:
        """Test equipment: sees every request before its handler."""
        return self._interceptor

    @interceptor.setter
    def interceptor(self, interceptor: Interceptor | None) -> None:
        self._interceptor = interceptor
        self.forget_seen()

    def _view_changed(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        if new.broker_configs is not old.broker_configs:
            self.forget_seen()

    def forget_seen(self) -> None:
        """Look at every frame again: what is served, or who looks at requests, has changed."""
        self._validity.holds = False
        self._validity = Validity()

    def serve(self, frame: bytes, connection: BrokerConnection) -> Buffers | Parked | None:
        """Answer one frame, or raise ProtocolError with a text that names client, API and reason."""
        header, position = read_request_header(frame)
        context = Context(*header, connection)
        handler = self._handler(context)
        if handler is None:
            return _unsupported(context)
        try:
            request = decode_request(handler.request_class, context.version, frame, position, AT_ONCE)
        except TooManyElementsError:
            work = self._serve_large(frame, position, handler, context)
            return self._started(LargeMessage(work, handler, _WHILE_IN_WORK * len(frame)))
        except DecodeError as error:
            raise ProtocolError(f"{context} cannot be read: {error}") from error
        price_of = handler.served.price
        price = 0 if price_of is None else price_of(self._broker, request, context.version)
        if price > LARGE_REPLY:
            work = self._reply_large(price, handler, request, context)
            return self._started(LargeMessage(work, handler, context=context))
        answer = self._answer(handler, request, context, len(frame))
        if handler.remember is not None and self._is_direct(connection) and not context.is_denied:
            self._keep((frame, position, request), handler, context)
        return answer

    def _is_direct(self, connection: BrokerConnection) -> bool:
        """Whether frames go from the connection to their handlers: no rule, no session that ends."""
        return self._interceptor is None and connection.asks(self)

    def _keep(self, read: tuple[bytes, int, Any], handler: Handler, context: Context) -> None:
        """Let the connection recognise what it has sent, if it sends that again."""
        connection = context.connection
        frame = read[0]
        api = frame[:2]
        if handler.served.key is ApiKey.OFFSET_COMMIT:
            last = connection.seen.get(api)
            if not connection.commit_sizes.is_worth_it(len(frame), last):
                return
        seen = self._remember(read, handler, context)
        if seen is not None:
            connection.seen[api] = seen
        else:
            connection.seen.pop(api, None)

    def _remember(self, read: tuple[bytes, int, Any], handler: Handler, context: Context) -> Any:  # noqa: ANN401
        """What is kept of a frame, whose body begins at a position, and of the request in it."""

        def write(response: Message) -> bytes:
            reply = encode_reply(response, handler.first_tagged_reply, context)
            assert reply is not None
            return b"".join(reply)

        grounds = Grounds(self._validity, self._may_answer, self._broker.authorizer, tuple(context.asked))
        assert handler.remember is not None
        return handler.remember(self._broker, read, context, grounds, write)

    def _answer(
        self, handler: Handler, request: Message, context: Context, size: int
    ) -> Buffers | Parked | None:
        try:
            self._check(handler)
            if self._interceptor is None:
                result = handler.handle(self._broker, request, context)
            else:
                result = self._intercepted(handler, request, context)
            if isinstance(result, _REPLIES):
                self._check_answer(handler)
        except Exception as error:
            result = refusal(error, handler, request, context)
        if result is None or isinstance(result, _REPLIES):
            return self._encode(result, handler, context)
        parked = ParkedRequest(result, (self._check_answer, self._encode), handler, request, context)
        if size > SMALL:
            parked.is_large(size)
        if handler.served.wait is Wait.LONG:
            context.waits_from_here_on()  # a Fetch has work to do before, and says it itself
        return self._started(parked)

    def _check(self, handler: Handler) -> None:
        """Refuse what comes from memory while the lease is not renewed: another node may lead it all by now.

        Looked at before a request is handled, and again when its answer is made. The answer was true at
        that moment, however long it then takes to the client.
        """
        served = handler.served
        if served.source is not None and not self._may_answer():
            if served.of_the_view:
                # An old view would send clients back to this node for ever. Without it they ask another one.
                raise ProtocolError("this node has lost touch with its cluster")
            code = ErrorCode.NOT_COORDINATOR if served.of_groups else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise RefusedError(code, "this node has lost touch with its cluster")

    def _check_answer(self, handler: Handler) -> None:
        """The same for an answer that has waited, unless it says what is stored."""
        if not handler.served.is_stored:
            self._check(handler)

    def _encode(self, response: Response, handler: Handler, context: Context) -> Buffers | Parked | None:
        """The frame of a reply, at once or, if there is much to write, later."""
        try:
            return encode_reply(response, handler.first_tagged_reply, context, AT_ONCE)
        except TooManyElementsError:
            work = partial(encode_reply, response, handler.first_tagged_reply, context)
            return self._started(LargeMessage(self._broker.heavy_work.call(work), handler))

    async def _serve_large(
        self, frame: bytes, position: int, handler: Handler, context: Context
    ) -> Buffers | Parked | None:
        most = handler.served.max_elements
        read = partial(decode_request, handler.request_class, context.version, frame, position, most)
        context.turn = turn = await self._broker.heavy_work.turn()
        try:
            request = await self._broker.heavy_work.call(read)
            return await _finish(self._answer(handler, request, context, len(frame)), turn)
        except DecodeError as error:
            raise ProtocolError(f"{context} cannot be read: {error} ({most:,} are allowed)") from error
        finally:
            turn.end()

    async def _reply_large(
        self, price: int, handler: Handler, request: Message, context: Context
    ) -> Buffers | Parked | None:
        """A small request whose reply is large: not before there is room for it."""
        turn = await self._broker.heavy_work.turn()
        try:
            room = await self._broker.budget.take_room(price)
            context.turn = turn  # it is begun
            try:
                return await _finish(self._answer(handler, request, context, 0), turn)
            finally:
                self._broker.budget.give_room_back(room)
        finally:
            turn.end()

    def _started(self, parked: ParkedRequest | LargeMessage) -> Parked:
        self._running.add(parked.future)
        parked.future.add_done_callback(self._finished)
        return parked

    async def drain(self, patience_s: float = 1.0) -> None:
        """Wait for the requests that were begun; the ones that take longer are given up."""
        if self._running:
            await asyncio.wait(self._running, timeout=patience_s)
        stuck = list(self._running)
        for future in stuck:
            future.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)

    def _finished(self, future: asyncio.Future[Any]) -> None:
        self._running.discard(future)
        if not future.cancelled():
            future.exception()  # looked at here, because the client may be gone

    def _intercepted(self, handler: Handler, request: Message, context: Context) -> Result:
        assert self._interceptor is not None
        return self._interceptor(context, request, lambda: handler.handle(self._broker, request, context))

    def _load(self, served: Served) -> Handler:
        return self._guarded(load_handler(served))

    def _handler(self, context: Context) -> Handler | None:
        handler = self._handlers.get(context.api_key)
        if handler is None:
            served = self._served.get(context.api_key)
            if served is None:
                return None
            try:
                handler = self._handlers[context.api_key] = self._load(served)
            except (ImportError, OSError, MemoryError) as error:  # too many open files, perhaps
                importlib.invalidate_caches()
                raise ProtocolError(f"{context} cannot be served now: {describe(error)}") from error
        served = handler.served
        return handler if served.oldest <= context.version <= served.newest else None


async def _finish(answer: Buffers | Parked | None, turn: HeavyTurn) -> Buffers | Parked | None:
    """Wait for what a large request still waits for, unless that may be long: then the turn is over."""
    while answer is not None and not isinstance(answer, list):
        try:
            waiting: list[asyncio.Future[Any]] = [answer.future, turn.over]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            answer.abandon()
            raise
        if not answer.future.done():
            break
        answer = answer.parts()
    return answer


def refusal(error: Exception, handler: Handler, request: Message, context: Context) -> Message:
    """What a handler raised, as the API's own error reply in the request's version."""
    if isinstance(error, ProtocolError):
        raise error
    if isinstance(error, RefusedError):
        code = error.code
    elif isinstance(error, (OSError, MemoryError)):
        # The machine failed, not the request: a code that lets the client try again.
        logger.warning("%s failed: %s", context, describe(error))
        of_groups = handler.served.of_groups
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if of_groups else ErrorCode.KAFKA_STORAGE_ERROR
    else:
        logger.error("%s failed", context, exc_info=error)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    if getattr(request, "acks", None) == 0:
        # No client waits for a reply: a closed connection is the only sign the client can see.
        raise ProtocolError(f"{context} failed without a reply to say so: {code.name}") from error
    return handler.refuse(request, code)


def _unsupported(context: Context) -> Buffers | None:
    """ApiVersions is answered in any version; for every other API there is no generic error frame."""
    if context.api_key != ApiKey.API_VERSIONS:
        raise ProtocolError(f"{context} is not served here")
    from kohort.broker.handlers.api_versions import unsupported_version

    context.version = 0
    return encode_reply(unsupported_version(), _NEVER, context)


def encode_reply(
    response: Response, first_tagged: int, context: Context, at_most: int = NO_LIMIT
) -> Buffers | None:
    """The frame of a reply: size, header (with tags from version ``first_tagged`` on), body."""
    if response is None:
        return None
    if isinstance(response, RawReply):
        body: Buffers = [response.body]
    else:
        body = encode_parts(response, context.version, at_most)
    tags = b"\0" if context.version >= first_tagged else b""
    if len(body) == 1:
        only = body[0]
        return [_PREFIX.pack(4 + len(tags) + len(only), context.correlation_id) + tags + only]
    size = 4 + len(tags) + sum(map(len, body))
    return [_PREFIX.pack(size, context.correlation_id) + tags, *body]
