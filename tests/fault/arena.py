"""A broker and its clients in one thread, without sockets: a frame goes in, its reply comes out.

Thousands of requests a second, through the same connection, dispatch and handlers that serve a socket.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.broker.asking import batch, metadata_request, produce_request
from tests.broker.grouping import commit_request, heartbeat_request, join_request, sync_request
from tests.broker.raw import DEADLINE_S, framed

from kohort.broker.login_limits import ConnectionPlace
from kohort.broker.server import Server
from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message, Struct
from kohort.model.errors import ErrorCode
from kohort.testing.broker import AsyncBroker
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.headers import RequestHeader, read_response_header, request_header
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest

T = TypeVar("T")
_TURNS = 50  # of the loop: a request that is then not answered waits for other members
_SIZE = 4
GUARDED = {"authorizer": "acl", "super.users": "User:ANONYMOUS"}  # a broker that has ACLs, and lets us pass
ABOUT_RIGHTS = (
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)


class ClosedError(Exception):
    """The broker closed the connection instead of answering."""


class Peer(asyncio.Transport):
    """The far end of a connection: keeps what the broker writes."""

    def __init__(self, server: Server) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.received = bytearray()
        self.closed = False
        self.news = asyncio.Event()
        self._connection = server._connect(0, ConnectionPlace())
        self._connection.connection_made(self)

    def send(self, content: bytes) -> None:
        self._connection.data_received(content)

    @property
    def is_served(self) -> bool:
        """Whether a request is worked on, or waits; else the broker has none, or a part of one."""
        return self._connection._waits

    def take(self) -> bytes:
        """What has come since the last call."""
        taken = bytes(self.received)
        self.received.clear()
        self.news.clear()
        return taken

    def hang_up(self) -> None:
        if not self.closed:
            self.close()

    # What the broker's end calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.received += data
        self.news.set()

    def writelines(self, list_of_data: Any) -> None:  # noqa: ANN401 - as asyncio declares it
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True
        self.news.set()
        asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class _Listener(logging.Handler):
    """Keeps what the broker says."""

    def __init__(self, lines: list[logging.LogRecord]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record)


class Arena:
    """One broker on virtual time, with topic ``t`` and group ``g``, and all that its log has said."""

    def __init__(self, **configs: str | int | bool) -> None:
        self._configs = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5, **configs}
        self._numbers = itertools.count(1)
        self._runner = asyncio.Runner()
        self.lines: list[logging.LogRecord] = []
        self.asked = 0

    def __enter__(self) -> Self:
        self._listener = _Listener(self.lines)
        logging.getLogger("kohort").addHandler(self._listener)
        self.run(self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.run(lambda: self._broker.__aexit__(None, None, None))
        self._runner.close()
        logging.getLogger("kohort").removeHandler(self._listener)

    async def _start(self) -> None:
        self._broker = await AsyncBroker(virtual_time=True, configs=self._configs).__aenter__()
        made = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)])
        await self.ask(made, 7)
        await self.ask(produce_request("t", batch("a"), batch("b")), 12)
        self.topic_id: bytes = (await self.ask(metadata_request("t"), 13)).topics[0].topic_id
        await self.ask(FindCoordinatorRequest(key="g"), 3)
        self.member, self.generation = "", -1
        await self.renew_member()

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        async def whole() -> T:
            return await work()

        return self._runner.run(whole())

    @property
    def server(self) -> Any:  # noqa: ANN401 - whatever of the broker a test looks at
        return self._broker.server

    def bugs(self) -> list[str]:
        """What the broker's log says of bugs, and of coordinators loaded again, since the last call."""
        if not self.lines:
            return []
        found = [line for line in self.lines if _is_bug(line)]
        self.lines.clear()
        return [
            f"{line.getMessage()}: {line.exc_info[1]!r}" if line.exc_info else line.getMessage()
            for line in found
        ]

    def frame_of(self, key: int, version: int, body: bytes) -> bytes:
        header = RequestHeader(ApiKey(key), version, next(self._numbers), "arena")
        return framed(request_header(header) + body)

    def number_from(self, first: int) -> None:
        """Count correlation ids from here on."""
        self._numbers = itertools.count(first)

    def frames(self, request: Message, version: int, copies: int = 1) -> bytes:
        """A request with so many correlation ids."""
        assert request.api_key is not None
        body = encode(request, version)
        return b"".join(self.frame_of(request.api_key, version, body) for _ in range(copies))

    async def ask(self, request: Message, version: int) -> Any:  # noqa: ANN401 - the caller knows the class
        """The reply to a request; ``ClosedError`` if the broker hangs up."""
        reply = await self.throw(self.frames(request, version))
        assert request.api_key is not None
        return None if reply is None else self.read(request.api_key, version, reply)

    def read(self, key: int, version: int, reply: bytes) -> Message:
        spec = APIS[key]
        flexible = spec.response_header_is_flexible(version)
        _, position = read_response_header(reply, flexible)
        return decode(spec.response_class, version, reply, position)

    async def throw(self, content: bytes, *, may_wait: bool = False) -> bytes | None:
        """What the broker answers first to some bytes: a reply without its size, or None if that waits."""
        self.asked += 1
        peer = Peer(self._broker.server)
        peer.send(content)
        try:
            if may_wait:
                for _ in range(_TURNS):
                    if peer.news.is_set():
                        break
                    if not peer.is_served:
                        return None
                    await asyncio.sleep(0)
                else:
                    return None
            else:
                await asyncio.wait_for(peer.news.wait(), DEADLINE_S)
            if not peer.received:
                raise ClosedError
            size = int.from_bytes(peer.received[:_SIZE])
            return bytes(peer.received[_SIZE : _SIZE + size])
        finally:
            peer.hang_up()
            await asyncio.sleep(0)

    async def renew_member(self) -> None:
        """See that group ``g`` has one member, and that it is stable."""
        if self.member:
            beat = await self.ask(heartbeat_request(self.member, self.generation), 4)
            if beat.error_code == 0:
                return
            self.advance(3_600_000)  # whoever was left behind in the group is gone then
        joined = await self.ask(join_request(), 3)
        assert joined.error_code == 0, joined
        self.member, self.generation = joined.member_id, joined.generation_id
        synced = await self.ask(sync_request(self.member, self.generation, {self.member: b"all"}), 3)
        assert synced.error_code == 0, synced
        await self.ask(commit_request((0, 1), member=(self.member, self.generation)), 8)

    def advance(self, milliseconds: int) -> None:
        assert self._broker.clock is not None
        self._broker.clock.advance(milliseconds)


def _is_bug(line: logging.LogRecord) -> bool:
    is_reload = line.name == "kohort.coordinator" and "loaded from its log again" in line.getMessage()
    return line.exc_info is not None or line.levelno >= logging.ERROR or is_reload


def codes(struct: Struct) -> Iterator[int]:
    """Every error code in a response, however deep."""
    for field in struct.fields:
        value = getattr(struct, field.name)
        if field.name == "error_code":
            yield value
        elif isinstance(value, Struct):
            yield from codes(value)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for item in value:
                yield from codes(item)


def is_unknown(response: Message) -> bool:
    """Whether the broker answered that it does not know what went wrong."""
    return ErrorCode.UNKNOWN_SERVER_ERROR in codes(response)
