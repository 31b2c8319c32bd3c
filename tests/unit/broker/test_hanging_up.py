"""A client that hangs up while its request is being worked on."""

import asyncio
import struct
from collections.abc import Awaitable

from kohort.broker.context import Response, Result
from kohort.codec.compiled import encode
from kohort.codec.schema import Message
from kohort.testing.broker import AsyncBroker
from kohort.testing.intercept import Proceed, Seen
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def frame(request: Message, version: int) -> bytes:
    assert request.api_key is not None
    body = struct.pack(">hhih", request.api_key, version, 1, 0) + encode(request, version)
    return struct.pack(">i", len(body)) + body


class Gate:
    """An interception that holds requests until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    def __call__(self, _seen: Seen, proceed: Proceed) -> Result:
        async def hold() -> Response:
            self.reached.set()
            await self.opened.wait()
            result = proceed()
            return await result if isinstance(result, Awaitable) else result

        return hold()


async def send_and_hang_up(broker: AsyncBroker, request: bytes, reached: asyncio.Event) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await reached.wait()
    writer.close()
    await writer.wait_closed()
    await broker.server.all_closed()


def test_a_topic_is_made_as_a_whole_even_if_nobody_hears_of_it() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            gate = Gate()
            broker.intercept(gate, api="CreateTopics")
            topic = CreatableTopic(name="t", num_partitions=3, replication_factor=1)
            await send_and_hang_up(broker, frame(CreateTopicsRequest(topics=[topic]), 4), gate.reached)
            gate.opened.set()
            await broker.server.dispatch.drain()
            served = broker.server.broker.topics.get("t")
            assert served is not None
            assert len(served.logs) == 3

    asyncio.run(run())


def test_a_long_poll_is_dropped_with_its_connection() -> None:
    async def run() -> None:
        async with AsyncBroker() as broker:
            topics = broker.server.broker.topics
            from kohort.broker.topics import TopicToCreate

            await topics.create(TopicToCreate("t"))
            waiting = broker.server.broker.fetch_waiters
            reached = asyncio.Event()

            def seen(_seen: Seen, proceed: Proceed) -> Result:
                reached.set()
                return proceed()

            broker.intercept(seen, api="Fetch")
            ask = FetchRequest(
                max_wait_ms=3_600_000,
                min_bytes=1,
                topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition_max_bytes=1_000)])],
            )
            await send_and_hang_up(broker, frame(ask, 4), reached)
            await broker.server.dispatch.drain()
            assert len(waiting) == 0

    asyncio.run(run())
