"""While one piece of a log is handed out the next is on its way, and goes with whatever makes it void."""

import asyncio

import pytest
from tests.unit.client.consumer.stage import P0, Stage, on_stage

from kohort.client.consumer import AsyncConsumer
from kohort.client.consumer.settings import ConsumerOptions
from kohort.client.fetching import chunk as chunk_module
from kohort.testing.intercept import Seen, watch
from kohort.wire.messages.fetch import FetchRequest

ONE_BATCH: ConsumerOptions = {"max_partition_fetch_bytes": 1, "fetch_max_wait_ms": 10_000}
TURNS = 100_000
LATER = [b"%d" % number for number in range(3, 10)]  # the stage has written three


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a piece that is read at once is known to its end; here even a small one is."""
    monkeypatch.setattr(chunk_module, "_WORTH_NUMPY", 1)


def asked(seen: list[Seen]) -> list[int]:
    """The offsets that were asked for."""
    requests = [each.request for each in seen if isinstance(each.request, FetchRequest)]
    rows = [row for request in requests for topic in request.topics for row in topic.partitions]
    return [row.fetch_offset for row in rows]


async def take(consumer: AsyncConsumer, count: int, limit: int = 1) -> list[int]:
    found: list[int] = []
    for _ in range(500):
        if len(found) >= count:
            break
        for portion in (await consumer.poll(1_000, limit)).values():
            found += [one.offset for one in portion]
    return found


async def until_asked(seen: list[Seen], offset: int) -> None:
    for _ in range(TURNS):
        if offset in asked(seen):
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{offset} was not asked for, only {asked(seen)}")


async def until_buffered(consumer: AsyncConsumer) -> None:
    """Until what was asked for is here."""
    assert consumer._engine is not None
    for _ in range(TURNS):
        if not consumer._engine.fetcher.is_asking:
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come")


@on_stage
async def test_the_next_piece_is_asked_for_while_one_is_handed_out(stage: Stage) -> None:
    await stage.write(*LATER)
    fetches = stage.broker.intercept(watch, api="Fetch")
    async with stage.reader(**ONE_BATCH) as consumer:
        assert await take(consumer, 1) == [0]
        await until_asked(fetches.seen, 3)
        assert await consumer.position(P0) == 1
        await until_buffered(consumer)
        assert await take(consumer, 9, limit=4) == list(range(1, 10))
        assert asked(fetches.seen)[:2] == [0, 3]


@on_stage
async def test_at_the_end_of_the_log_nothing_is_asked_for_too_early(stage: Stage) -> None:
    fetches = stage.broker.intercept(watch, api="Fetch")
    async with stage.reader(**ONE_BATCH) as consumer:
        assert await take(consumer, 2) == [0, 1]
        assert asked(fetches.seen) == [0]
        consumer.seek(P0, 1)  # would wait, if somebody were waiting for offset 3
        assert await take(consumer, 2) == [1, 2]


@on_stage
async def test_a_seek_makes_what_was_read_ahead_void(stage: Stage) -> None:
    await stage.write(*LATER)
    fetches = stage.broker.intercept(watch, api="Fetch")
    async with stage.reader(**ONE_BATCH) as consumer:
        assert await take(consumer, 1) == [0]
        await until_asked(fetches.seen, 3)
        consumer.seek(P0, 0)  # the answer is still on its way
        assert await take(consumer, 8) == list(range(8))
        consumer.seek(P0, 0)
        assert await take(consumer, 2) == [0, 1]
        await until_buffered(consumer)
        consumer.seek(P0, 5)  # the answer is here
        assert await take(consumer, 5) == [5, 6, 7, 8, 9]


@on_stage
async def test_a_paused_partition_keeps_what_was_read_ahead(stage: Stage) -> None:
    await stage.write(*LATER)
    fetches = stage.broker.intercept(watch, api="Fetch")
    async with stage.reader(**ONE_BATCH) as consumer:
        assert await take(consumer, 1) == [0]
        await until_asked(fetches.seen, 3)
        await until_buffered(consumer)
        consumer.pause(P0)
        assert await consumer.poll(0) == {}
        consumer.resume(P0)
        assert await take(consumer, 9, limit=2) == list(range(1, 10))
        assert asked(fetches.seen)[:2] == [0, 3]
