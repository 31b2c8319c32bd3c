"""A load generator that costs little: prepared frames out, replies counted by their size fields."""

import asyncio
import struct
import time
from collections.abc import Callable
from typing import cast

from kohort.codec.compiled import decode, encode
from kohort.codec.schema import Message
from kohort.wire.apis import api_spec

_SIZE = struct.Struct(">i")


def request_frame(request: Message, version: int, correlation_id: int = 1) -> bytes:
    """A whole frame of a request, size included."""
    assert request.api_key is not None
    spec = api_spec(request.api_key)
    client = b"bench"
    header = struct.pack(">hhih", request.api_key, version, correlation_id, len(client)) + client
    if spec.is_flexible(version):
        header += b"\0"
    body = encode(request, version)
    return _SIZE.pack(len(header) + len(body)) + header + body


class Pipe(asyncio.Protocol):
    """One connection that keeps ``depth`` copies of a frame in flight, counting replies."""

    def __init__(self) -> None:
        self.replies = 0
        self.on_reply: Callable[[int], None] | None = None
        self._buffer = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None
        self.last_frame = b""  # the reply of the last call, size included
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        position = count = 0
        last = b""
        while len(buffer) - position >= 4:
            (size,) = _SIZE.unpack_from(buffer, position)
            end = position + 4 + size
            if end > len(buffer):
                break
            if self._waiting is not None:
                last = bytes(buffer[position + 4 : end])
            position = end
            count += 1
        if not count:
            return
        del buffer[:position]
        self.replies += count
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            waiting.set_result(last)
        elif self.on_reply is not None:
            self.on_reply(count)

    async def call(self, request: Message, version: int) -> Message:
        """Send one request and wait for its reply."""
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request_frame(request, version))
        frame = await self._waiting
        self.last_frame = _SIZE.pack(len(frame)) + frame
        assert request.api_key is not None
        spec = api_spec(request.api_key)
        start = 5 if spec.response_header_is_flexible(version) else 4
        return decode(spec.response_class, version, frame, start)


async def connect(host: str, port: int) -> Pipe:
    _, pipe = await asyncio.get_running_loop().create_connection(Pipe, host, port)
    return pipe


async def hammer(pipes: list[tuple[Pipe, bytes]], depth: int, seconds: float) -> float:
    """Replies per second with ``depth`` requests in flight on every connection."""
    loop = asyncio.get_running_loop()
    stop_at = time.perf_counter() + seconds
    done = loop.create_future()

    def go_on(pipe: Pipe, frame: bytes) -> Callable[[int], None]:
        def answered(count: int) -> None:
            if time.perf_counter() < stop_at:
                pipe.transport.write(frame * count)
            elif not done.done():
                done.set_result(None)

        return answered

    before = sum(pipe.replies for pipe, _ in pipes)
    started = time.perf_counter()
    for pipe, frame in pipes:
        pipe.on_reply = go_on(pipe, frame)
        pipe.transport.write(frame * depth)
    await done
    elapsed = time.perf_counter() - started
    total = sum(pipe.replies for pipe, _ in pipes) - before
    for pipe, _ in pipes:
        pipe.on_reply = None
    return total / elapsed
