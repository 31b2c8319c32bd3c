"""A run of ``kohort consume`` that is interrupted in any moment knows what it has shown."""

import asyncio

import pytest

from kohort.cli.commentary import Commentary
from kohort.cli.consuming import Consuming, Wish
from kohort.client.consumer import AsyncConsumer
from kohort.client.fetch import StartAt
from kohort.client.fetching.records import ConsumerRecord
from kohort.client.producer import AsyncProducer
from kohort.testing.broker import Broker


@pytest.mark.parametrize("turns", range(8))
def test_what_was_printed_counts_however_soon_after_it_the_run_is_interrupted(turns: int) -> None:
    commentary = Commentary("reading", quiet=True, draws=False)

    async def interrupt(run: asyncio.Task[None], printed: asyncio.Event) -> None:
        await printed.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        run.cancel()

    async def consume() -> None:
        printed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def show(records: list[ConsumerRecord]) -> int:
            loop.call_soon_threadsafe(printed.set)
            return len(records)

        async with AsyncProducer(bootstrap_servers=broker.bootstrap) as producer:
            await asyncio.gather(*[producer.send("t", value) for value in (b"a", b"b", b"c")])
        consumer = AsyncConsumer(bootstrap_servers=broker.bootstrap)
        wish = Wish(topics=["t"], start=StartAt())
        run = asyncio.create_task(Consuming(consumer, wish, show, commentary).run())
        interrupter = asyncio.create_task(interrupt(run, printed))
        with pytest.raises(asyncio.CancelledError):
            await run
        await interrupter

    with Broker() as broker:
        asyncio.run(consume())
    assert (commentary.records, commentary.size) == (3, 3)
