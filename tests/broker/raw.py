"""A client that knows frames and correlation ids and nothing else: whatever a test wants to say, it says."""

import socket
import struct
import time
from collections import deque
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message
from kohort.wire.apis import APIS, ApiKey
from kohort.wire.headers import RequestHeader, read_response_header, request_header

DEADLINE_S: Final = 60.0

Reply = Any  # a response whose class the test knows


class Waiting(NamedTuple):
    """A request that was sent and whose reply has not been taken."""

    correlation_id: int
    key: int
    version: int


def framed(content: bytes) -> bytes:
    """Bytes with their size before them."""
    return struct.pack(">i", len(content)) + content


def body_of(frame: bytes, sent: Waiting) -> tuple[int, bytes]:
    """The correlation id and the body of a reply."""
    flexible = APIS[sent.key].response_header_is_flexible(sent.version)
    correlation_id, position = read_response_header(frame, flexible)
    return correlation_id, frame[position:]


class Raw:
    """One connection. Replies must come in the order of the requests, each within the deadline."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str = "raw",
        *,
        receive_buffer: int | None = None,
        source: str | None = None,
    ) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._numbers = 0
        self._waiting: deque[Waiting] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """This end, as the broker's log lines name it."""
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        self.socket.close()

    # Sending

    def send(self, request: Message, version: int) -> Reply:
        """Ask and wait for the answer; ConnectionError when the broker closes instead."""
        self.post(request, version)
        return self.take()

    def post(self, request: Message, version: int) -> None:
        """Ask; ``take`` gets the answer."""
        self.send_bytes(self.frame(request, version))

    def post_unanswered(self, request: Message, version: int) -> None:
        """Say something that gets no reply: a Produce with acks 0."""
        self.post(request, version)
        self._waiting.pop()

    def frame(self, request: Message, version: int) -> bytes:
        """The bytes of a request, and a note that its reply will come."""
        assert request.api_key is not None
        return self.frame_of(request.api_key, version, encode(request, version))

    def frame_of(self, key: int, version: int, body: bytes) -> bytes:
        """As ``frame``, with a body that need not make sense."""
        self._numbers += 1
        self._waiting.append(Waiting(self._numbers, key, version))
        if key in APIS:
            header = request_header(RequestHeader(key, version, self._numbers, self.client_id))
        else:
            client = self.client_id.encode()
            header = struct.pack(">hhih", key, version, self._numbers, len(client)) + client
        return framed(header + body)

    def send_bytes(self, content: bytes) -> None:
        """Anything at all."""
        self.socket.sendall(content)

    def end_sending(self) -> None:
        """Half-close: the broker sees the end of the input, this end could still read."""
        self.socket.shutdown(socket.SHUT_WR)

    # Receiving

    def take(self) -> Reply:
        """The answer to the oldest request that has none yet."""
        sent = self._waiting[0]
        frame = self.take_frame()
        spec = APIS[sent.key]
        _, body = body_of(frame, sent)
        return decode(spec.response_class, sent.version, body)

    def take_frame(self) -> bytes:
        """The same without its size, not decoded; checks that it is the one that is due."""
        sent = self._waiting[0]
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        self._waiting.popleft()
        correlation_id, _ = body_of(frame, sent)
        assert correlation_id == sent.correlation_id, f"{ApiKey(sent.key).name}: another reply was due"
        return frame

    def take_as(self, version: int) -> Reply:
        """The answer, read in a version that is not the one of the request."""
        sent = self._waiting.popleft()
        self._waiting.appendleft(sent._replace(version=version))
        return self.take()

    def receive_once(self) -> bytes:
        """Whatever one read of the socket gives; nothing at all when the broker has closed."""
        return self.socket.recv(1 << 20)

    def has_something(self) -> bool:
        """Whether bytes (or the end) have arrived by now; does not wait."""
        self.socket.setblocking(False)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            self.socket.settimeout(DEADLINE_S)
        return True

    def is_closed(self) -> bool:
        """Whether the broker has closed this connection without another byte; waits until it does."""
        try:
            return self.receive_once() == b""
        except ConnectionResetError:
            return True

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        give_up_at = time.monotonic() + DEADLINE_S
        while len(received) < count:
            chunk = self.socket.recv(count - len(received))
            if not chunk:
                raise ConnectionError(
                    f"the broker closed the connection, {count - len(received)} bytes early"
                )
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{len(received)} of {count} bytes came in {DEADLINE_S} s")
            received += chunk
        return bytes(received)
