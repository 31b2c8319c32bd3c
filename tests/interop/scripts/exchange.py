"""Raw requests to a broker: our codec, named connections, no client in between."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.headers import RequestHeader, read_response_header, request_header

REPLY_SECONDS: Final = 60.0
CLIENT_ID: Final = "script"
MAIN: Final = "main"


@dataclass(frozen=True, slots=True)
class Reply:
    """A decoded response, the version it came in, and its bytes behind the header."""

    message: Message
    version: int
    body: bytes = b""


class Closed:
    """The broker closed the connection instead of answering."""


class NoReply:
    """The broker stayed silent, as it should."""


AnyMessage = Any  # a message whose class the caller knows
Answer = Reply | Closed | NoReply
Script = Callable[["Exchange"], Iterator[tuple[str, Answer]]]


@dataclass(slots=True)
class _Connection:
    stream: socket.socket
    waiting: list[tuple[int, ApiKey, int]] = field(default_factory=list)
    last_id: int = 0


class Exchange:
    """One broker, several connections, each made when first named. Close it when done."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._connections: dict[str, _Connection] = {}

    def close(self) -> None:
        """End all connections."""
        for name in list(self._connections):
            self.hang_up(name)

    def hang_up(self, on: str = MAIN) -> None:
        """End one connection; naming it again makes a new one."""
        self._connections.pop(on).stream.close()

    def ask(self, request: Message, version: int, on: str = MAIN, client_id: str = CLIENT_ID) -> AnyMessage:
        """Send and return the decoded response; raises ConnectionError when the broker closes instead."""
        answer = self.get(request, version, on, client_id)
        if not isinstance(answer, Reply):
            raise ConnectionError(f"{type(request).__name__} v{version}: the broker closed the connection")
        return answer.message

    def get(self, request: Message, version: int, on: str = MAIN, client_id: str = CLIENT_ID) -> Answer:
        """Send and wait for what comes back."""
        self.post(request, version, on, client_id)
        return self.take(on)

    def post(self, request: Message, version: int, on: str = MAIN, client_id: str = CLIENT_ID) -> None:
        """Send without waiting; ``take`` on the same connection gets the answer."""
        assert request.api_key is not None
        self.post_bytes(ApiKey(request.api_key), version, encode(request, version), on, client_id)

    def post_unanswered(self, request: Message, version: int, on: str = MAIN) -> None:
        """Send something that gets no reply (a Produce with acks 0)."""
        self.post(request, version, on)
        self._connection(on).waiting.pop()

    def post_bytes(
        self, key: ApiKey, version: int, body: bytes, on: str = MAIN, client_id: str = CLIENT_ID
    ) -> None:
        """Send any body, legal or not, behind a proper header."""
        connection = self._connection(on)
        connection.last_id += 1
        header = request_header(RequestHeader(int(key), version, connection.last_id, client_id))
        connection.waiting.append((connection.last_id, key, version))
        with suppress(ConnectionError):  # the broker may close before it has read all: take() tells
            connection.stream.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def take(self, on: str = MAIN, read_as: int | None = None) -> Answer:
        """The answer to the oldest unanswered request of a connection, read in its version or another."""
        connection = self._connection(on)
        expected, key, version = connection.waiting.pop(0)
        version = version if read_as is None else read_as
        try:
            (size,) = struct.unpack(">i", self._exactly(connection, 4))
            frame = self._exactly(connection, size)
        except ConnectionError:
            self.hang_up(on)
            return Closed()
        spec = APIS[key]
        correlation, position = read_response_header(frame, spec.response_header_is_flexible(version))
        assert correlation == expected, f"{key.name}: asked {expected}, answered {correlation}"
        return Reply(decode(spec.response_class, version, frame, position), version, frame[position:])

    def expect_silence(self, on: str, seconds: float = 0.3) -> NoReply:
        """Make sure that nothing arrives on a connection for a moment."""
        stream = self._connection(on).stream
        stream.settimeout(seconds)
        try:
            early = stream.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return NoReply()
        finally:
            stream.settimeout(REPLY_SECONDS)
        raise AssertionError(f"{on}: something came although nothing was due: {early!r}")

    def _connection(self, name: str) -> _Connection:
        if name not in self._connections:
            stream = socket.create_connection(self._address, timeout=REPLY_SECONDS)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[name] = _Connection(stream)
        return self._connections[name]

    @staticmethod
    def _exactly(connection: _Connection, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            chunk = connection.stream.recv(count - len(received))
            if not chunk:
                raise ConnectionError("closed")
            received += chunk
        return bytes(received)
