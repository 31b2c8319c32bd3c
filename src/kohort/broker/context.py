"""Who sent a request, and in which version: what a handler may ask besides the request itself."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from kohort.codec.schema import Message
from kohort.wire.apis import APIS

if TYPE_CHECKING:
    from kohort.broker.connection import BrokerConnection
    from kohort.broker.endpoints import ListenAddress
    from kohort.broker.heavy_work import HeavyTurn
    from kohort.security.acls import Question


_SHOWN = 100  # characters of a client id: some clients have a novel there


class Context:
    """The envelope of one request. Plain and slotted: one is made for every request."""

    __slots__ = (
        "api_key",
        "asked",
        "client_id",
        "connection",
        "correlation_id",
        "is_denied",
        "may_read",
        "turn",
        "version",
    )

    def __init__(
        self, api_key: int, version: int, correlation_id: int, client_id: str, connection: "BrokerConnection"
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.turn: HeavyTurn | None = None  # of a large request
        self.asked: list[Question] = []  # of the authorizer, for this request
        self.is_denied = False  # something of it, by the authorizer
        self.may_read: Callable[[str], bool] | None = None  # of a Fetch that an authorizer looks at

    def waits_from_here_on(self) -> None:
        """Let another large request have its turn."""
        if self.turn is not None:
            self.turn.end()

    @property
    def advertised(self) -> "ListenAddress":
        """The broker's address for clients of the listener that this request came in on."""
        return self.connection.endpoint.advertised

    @property
    def listener(self) -> str:
        """The name of the listener that this request came in on."""
        return self.connection.endpoint.listener.name

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka records it, with a leading slash."""
        return self.connection.client_host

    def __str__(self) -> str:
        spec = APIS.get(self.api_key)
        name = spec.name if spec is not None else f"API {self.api_key}"
        return f"{name} v{self.version} of client {self.client_id[:_SHOWN]!r}"


class RawReply:
    """The body of a reply as bytes, header left out: how a test sends a client something broken."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body


class DeferredResponse:
    """A response made of what a future brings; needs no task, which would cost more than most handlers."""

    __slots__ = ("future", "make")

    def __init__(self, future: asyncio.Future[Any], make: Callable[[Any], Message]) -> None:
        self.future = future
        self.make = make

    def __await__(self) -> Generator[Any, None, Message]:
        return self.make((yield from self.future))


Response = Message | RawReply | None
Result = Response | Awaitable[Response]

# Test equipment: sees every request, may answer it, wait, or let the handler ``proceed``.
Interceptor = Callable[[Context, Message, Callable[[], Result]], Result]
