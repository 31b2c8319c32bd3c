"""A broker that errs on demand, and consumers of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from inspect import Signature, signature
from typing import Any, Unpack

from tests.writing import write

from kohort.broker.context import Response, Result
from kohort.client.consumer import AsyncConsumer
from kohort.client.consumer.settings import ConsumerOptions
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.model.errors import ErrorCode
from kohort.testing.broker import AsyncBroker
from kohort.testing.intercept import Action, Proceed, Seen
from kohort.wire.messages.fetch import FetchResponse

TURNS = 1_500
P0 = ("t", 0)


class Stage:
    """A broker with topic ``t`` of one partition, and consumers of it."""

    def __init__(self, broker: AsyncBroker) -> None:
        self.broker = broker

    async def write(self, *values: bytes) -> None:
        await self.write_to("t", *values)

    async def write_to(self, topic: str, *values: bytes) -> None:
        await write(self.broker.bootstrap, topic, values)

    @asynccontextmanager
    async def reader(self, *topics: str, **more: Unpack[ConsumerOptions]) -> AsyncIterator[AsyncConsumer]:
        """A consumer of the group ``group_id``; without topics it has the partition assigned."""
        usual: ConsumerOptions = {
            "bootstrap_servers": self.broker.bootstrap,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 20,
            "retry_backoff_ms": 10,
            "heartbeat_interval_ms": 100,
        }
        async with AsyncConsumer(*topics, **(usual | more)) as consumer:
            if not topics:
                consumer.assign([P0])
            yield consumer


async def read(consumer: AsyncConsumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    for _ in range(TURNS):
        records += [one for portion in (await consumer.poll(20)).values() for one in portion]
        if len(records) >= count:
            break
    assert len(records) == count
    return records


async def joined(consumer: AsyncConsumer) -> None:
    for _ in range(TURNS):
        await consumer.poll(20)
        if consumer.assignment():
            return
    raise AssertionError("nothing was assigned")


def on_stage(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test with a stage of its own, on a loop of its own."""

    async def play(**parameters: object) -> None:
        configs = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
        async with AsyncBroker(configs=configs) as broker:
            stage = Stage(broker)
            await stage.write(b"a", b"b", b"c")
            await asyncio.wait_for(test(stage, **parameters), 90)

    @wraps(test)
    def run(**parameters: object) -> None:
        asyncio.run(play(**parameters))

    # Else pytest looks for a fixture called stage.
    others = [each for name, each in signature(test).parameters.items() if name != "stage"]
    run.__signature__ = Signature(others)  # type: ignore[attr-defined]  # functions may have one
    return run


def spoiled(change: Callable[[Any], None]) -> Action:
    """The real reply, after ``change`` had its way with it."""

    def act(_seen: Seen, proceed: Proceed) -> Result:
        async def wait() -> Response:
            result = proceed()
            response = await result if isinstance(result, Awaitable) else result
            change(response)
            return response

        return wait()

    return act


def partitions_fail(code: ErrorCode) -> Callable[[FetchResponse], None]:
    def fail(response: FetchResponse) -> None:
        for topic in response.responses:
            for one in topic.partitions:
                one.error_code, one.records = code, None

    return fail
