"""A run of ``kohort consume`` that is interrupted in any moment knows what it has shown."""

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from kohort.cli.commentary import Commentary
from kohort.cli.records.consume_from import StartAt
from kohort.cli.records.consuming import ConsumeRequest, Consuming
from kohort.client.consumer import AsyncConsumer
from kohort.client.fetching.chunk import ConsumerRecord
from kohort.client.producer import AsyncProducer
from kohort.model.topics import TopicPartition
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
        wish = ConsumeRequest(topics=["t"], start=StartAt())
        run = asyncio.create_task(Consuming(consumer, wish, show, commentary).run())
        interrupter = asyncio.create_task(interrupt(run, printed))
        with pytest.raises(asyncio.CancelledError):
            await run
        await interrupter

    with Broker() as broker:
        asyncio.run(consume())
    assert (commentary.records, commentary.size) == (3, 3)


def test_the_time_in_which_nothing_comes_begins_when_something_can_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commentary = Commentary("reading", quiet=True, draws=False)
    now = 0.0
    monkeypatch.setattr("kohort.cli.records.consuming.time", SimpleNamespace(monotonic=lambda: now))

    async def consume() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send("t", b"a")
        consumer = AsyncConsumer(bootstrap_servers=broker.bootstrap)
        end_offsets = consumer.end_offsets

        async def slowly(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
            nonlocal now
            now += 60
            return await end_offsets(partitions)

        monkeypatch.setattr(consumer, "end_offsets", slowly)
        wish = ConsumeRequest(topics=["t"], start=StartAt(), idle_seconds=30, limit=1)
        await Consuming(consumer, wish, len, commentary).run()

    with Broker() as broker:
        asyncio.run(consume())
    assert commentary.records == 1


def test_a_member_whose_broker_is_gone_ends_soon_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kohort.cli.records.consuming._COMMIT_MS", 50)
    patience: list[float] = []

    async def consume() -> None:
        printed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def show(records: list[ConsumerRecord]) -> int:
            loop.call_soon_threadsafe(printed.set)
            return len(records)

        async with AsyncProducer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send("t", b"a")
        consumer = AsyncConsumer(
            bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest"
        )
        close = consumer.close

        async def recorded(timeout_ms: float) -> None:
            patience.append(timeout_ms)
            await close(timeout_ms)

        monkeypatch.setattr(consumer, "close", recorded)
        wish, talk = ConsumeRequest(topics=["t"], group="g"), Commentary("reading", quiet=False, draws=False)
        run = asyncio.create_task(Consuming(consumer, wish, show, talk).run())
        await printed.wait()
        await asyncio.to_thread(stack.close)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    with ExitStack() as stack:
        broker = stack.enter_context(Broker(configs={"group.initial.rebalance.delay.ms": 0}))
        asyncio.run(consume())
    assert patience == [1_000]
    assert "not committed, and the group may not know that this member left" in capsys.readouterr().err
