"""Whenever a call is cancelled, callers know what was sent, and nobody waits for ever."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from tests.unit.client.interrupted import every_interruption
from tests.unit.client.producer.stage import brokers, quick, sent
from tests.unit.client.scripted import on_loop

from kohort.client.producer import AsyncProducer, ProducerClosedError, RecordMetadata
from kohort.records.batch import read_header
from kohort.testing.broker import AsyncBroker
from kohort.testing.intercept import swallow

Delivery = asyncio.Future[RecordMetadata]


@on_loop
async def test_a_send_that_is_cancelled_anywhere_has_sent_nothing() -> None:
    scripted = brokers()
    known: list[Delivery] = []
    async with scripted.client() as cluster:
        producer = quick(cluster, batch_size=100)

        async def prepare() -> Callable[[], Coroutine[None, None, None]]:
            await producer.close()
            scripted.received.clear()
            known.clear()
            await producer.start()
            return send_some

        async def send_some() -> None:
            for _ in range(4):
                known.append(await producer.send("orders", b"x" * 50))

        async for where in every_interruption(prepare):
            await producer.close()
            at_the_broker = sum(read_header(batch).records_count for batch in sent(scripted))
            assert at_the_broker == len(known), where
            assert all(delivery.done() for delivery in known), where


@pytest.mark.slow
@on_loop
async def test_a_close_that_is_cancelled_anywhere_tells_who_waits_and_closes_its_connections() -> None:
    async with AsyncBroker() as broker:
        on_its_way: list[Delivery] = []

        async def prepare() -> Callable[[], Coroutine[None, None, None]]:
            producer = AsyncProducer(bootstrap_servers=broker.bootstrap)
            await producer.start()
            await producer.partitions_for("t")
            broker.intercept(swallow, api="Produce")
            on_its_way[:] = [await producer.send("t", b"v")]
            on_its_way[0].add_done_callback(asyncio.Future.exception)  # of the uninterrupted one nobody asks
            return lambda: producer.close(timeout_ms=50)

        async for where in every_interruption(prepare):
            await broker.server.all_closed()
            (delivery,) = on_its_way
            assert delivery.done(), where
            with pytest.raises(ProducerClosedError):
                delivery.result()
