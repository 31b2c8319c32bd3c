"""Polls that hand out what is there already, without a turn of the engine; and what makes them take one."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from tests.unit.client.consumer.stage import P0, TURNS, Stage, joined, on_stage
from tests.writing import write

from kohort.client.consumer import AsyncConsumer, Consumer, engine
from kohort.client.consumer.engine import Records
from kohort.client.errors import ConcurrentUseError, WakeupError
from kohort.client.loop_thread import LoopThread
from kohort.testing.plugin import Kohort

FIRST_OF_MORE = 3  # the stage has written three
MORE = [b"%d" % number for number in range(FIRST_OF_MORE, 20)]


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, time alone does not end the calm."""
    monkeypatch.setattr(engine, "_CALM_MS", 600_000.0)


def offsets(records: Records | None) -> list[int] | None:
    return None if records is None else [one.offset for portion in records.values() for one in portion]


async def begin(stage: Stage, consumer: AsyncConsumer) -> int:
    """Poll until what comes next is there already; the offset it begins at."""
    await stage.write(*MORE)
    for _ in range(TURNS):
        found = offsets(await consumer.poll(20, 2))
        is_calm = consumer._engine is not None and not consumer._engine.tasks.bell.is_set()
        if found and found[-1] >= FIRST_OF_MORE and is_calm:  # the first three may have come without the rest
            return found[-1] + 1
    raise AssertionError("nothing was buffered")


@on_stage
async def test_what_is_there_is_handed_out_and_the_position_moves(stage: Stage) -> None:
    async with stage.reader() as consumer:
        first = await begin(stage, consumer)
        assert offsets(consumer.poll_buffered(2)) == [first, first + 1]
        assert await consumer.position(P0) == first + 2
        assert offsets(await consumer.poll(0, 3)) == [first + 2, first + 3, first + 4]


@on_stage
async def test_the_last_records_of_a_fetch_take_a_turn_that_asks_for_more(stage: Stage) -> None:
    async with stage.reader() as consumer:
        first = await begin(stage, consumer)
        assert consumer.poll_buffered(20 - first) is None
        assert offsets(await consumer.poll(0, 20)) == list(range(first, 20))


@on_stage
async def test_a_seek_between_two_polls_counts(stage: Stage) -> None:
    async with stage.reader() as consumer:
        await begin(stage, consumer)
        consumer.seek(P0, 1)
        assert consumer.poll_buffered(2) is None
        assert offsets(await consumer.poll(10_000, 2)) == [1, 2]


@on_stage
async def test_a_paused_partition_gives_nothing_and_goes_on_where_it_was(stage: Stage) -> None:
    async with stage.reader() as consumer:
        first = await begin(stage, consumer)
        consumer.pause(P0)
        assert consumer.poll_buffered(2) is None
        assert await consumer.poll(0, 2) == {}
        consumer.resume(P0)
        assert consumer.poll_buffered(2) is None
        assert offsets(await consumer.poll(10_000, 2)) == [first, first + 1]


@on_stage
async def test_another_assignment_gives_nothing_of_the_old_one(stage: Stage) -> None:
    await stage.write_to("other", b"x")
    async with stage.reader() as consumer:
        await begin(stage, consumer)
        consumer.assign([("other", 0)])
        assert consumer.poll_buffered(2) is None
        found = await consumer.poll(10_000, 2)
        assert [(one.topic, one.value) for portion in found.values() for one in portion] == [("other", b"x")]


@on_stage
async def test_a_wakeup_ends_the_next_poll_although_records_are_there(stage: Stage) -> None:
    async with stage.reader() as consumer:
        first = await begin(stage, consumer)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await consumer.poll(0, 2)
        assert offsets(await consumer.poll(0, 2)) == [first, first + 1]


@on_stage
async def test_an_iteration_and_polls_do_not_mix_up_the_order(stage: Stage) -> None:
    async with stage.reader(max_poll_records=2) as consumer:
        first = await begin(stage, consumer)
        async for record in consumer:
            assert record.offset == first
            break
        assert consumer.poll_buffered(2) is None
        assert offsets(await consumer.poll(0, 2)) == [first + 1]
        assert offsets(await consumer.poll(0, 2)) == [first + 2, first + 3]


@on_stage
async def test_an_interceptor_sees_every_record(stage: Stage) -> None:
    class Counting:
        seen = 0

        def on_consume(self, records: Records) -> Records:
            self.seen += sum(map(len, records.values()))
            return records

    counting = Counting()
    async with stage.reader(interceptors=[counting]) as consumer:
        first = await begin(stage, consumer)
        assert consumer.poll_buffered(2) is None
        assert offsets(await consumer.poll(0, 2)) == [first, first + 1]
    assert counting.seen == first + 2


@on_stage
async def test_a_commit_covers_what_buffered_polls_handed_out(stage: Stage) -> None:
    async with stage.reader("t", group_id="g", enable_auto_commit=False) as consumer:
        await joined(consumer)
        consumer.seek(P0, 0)
        first = await begin(stage, consumer)
        assert offsets(consumer.poll_buffered(2)) == [first, first + 1]
        await consumer.commit()
        found = (await consumer.committed(P0)).values()
        assert [one and one.offset for one in found] == [first + 2]


@on_stage
async def test_a_rebalance_takes_its_turn_before_more_is_handed_out(stage: Stage) -> None:
    async with stage.reader("t", group_id="g") as consumer:
        await joined(consumer)
        consumer.seek(P0, 0)
        first = await begin(stage, consumer)
        consumer.enforce_rebalance()
        assert consumer.poll_buffered(2) is None
        # Given back and taken again: what was buffered is gone, and read again from what was committed.
        found: list[int] = []
        for _ in range(TURNS):
            found += offsets(await consumer.poll(20, 2)) or []
            if found:
                break
        assert found == [first, first + 1]


@on_stage
async def test_after_a_while_a_poll_takes_its_turn_although_records_are_there(stage: Stage) -> None:
    async with stage.reader() as consumer:
        first = await begin(stage, consumer)
        assert consumer._engine is not None
        consumer._engine._calm_until = consumer._engine.tasks.now()
        assert consumer.poll_buffered(2) is None
        assert offsets(await consumer.poll(0, 2)) == [first, first + 1]


# --- without an event loop --------------------------------------------------------------------


def filled(kohort: Kohort, count: int) -> str:
    """A topic with so many records, in one batch."""
    topic = kohort.topic()
    asyncio.run(write(kohort.bootstrap, topic, [b"%d" % number for number in range(count)]))
    return topic


@pytest.fixture
def consumer(kohort: Kohort) -> Iterator[Consumer]:
    """Of 2,000 records, with some handed out and the rest there."""
    topic = filled(kohort, 2_000)
    with Consumer(bootstrap_servers=kohort.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        for at in (0, 10, 20):
            assert offsets(consumer.poll(10_000, 10)) == list(range(at, at + 10))
        yield consumer


@pytest.fixture
def trips(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for each errand to the loop."""
    made: list[object] = []
    run = LoopThread.run

    def counted(loop: LoopThread, work: object) -> object:
        made.append(work)
        return run(loop, work)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(LoopThread, "run", counted)
    return made


def test_polls_do_not_go_to_the_loop_for_what_is_there(consumer: Consumer, trips: list[object]) -> None:
    found = [offsets(consumer.poll(0, 10)) for _ in range(50)]
    assert found == [list(range(at, at + 10)) for at in range(30, 530, 10)]
    assert len(trips) <= 1  # metadata may have come in meanwhile
    (partition,) = consumer.assignment()
    assert consumer.position(partition) == 530


def test_a_seek_or_a_pause_between_polls_counts_in_every_thread(consumer: Consumer) -> None:
    (partition,) = consumer.assignment()
    consumer.seek(partition, 7)
    assert offsets(consumer.poll(10_000, 3)) == [7, 8, 9]
    consumer.pause(partition)
    assert consumer.poll(0, 3) == {}
    consumer.resume(partition)
    assert offsets(consumer.poll(10_000, 3)) == [10, 11, 12]


def test_a_wakeup_is_not_missed_by_a_poll_that_needs_no_loop(consumer: Consumer) -> None:
    for at in range(30, 230, 10):
        waker = threading.Thread(target=consumer.wakeup)
        waker.start()
        waker.join()
        with pytest.raises(WakeupError):
            consumer.poll(0, 10)
        assert offsets(consumer.poll(0, 10)) == list(range(at, at + 10))


def test_another_thread_is_refused_while_a_poll_deserializes(kohort: Kohort) -> None:
    topic = filled(kohort, 100)
    refused: list[ConcurrentUseError] = []

    def intrude() -> None:
        try:
            reader.poll()
        except ConcurrentUseError as error:
            refused.append(error)

    def value_of(value: bytes) -> bytes:
        if value == b"42":
            thread = threading.Thread(target=intrude)
            thread.start()
            thread.join()
        return value

    reader = Consumer(
        bootstrap_servers=kohort.bootstrap, auto_offset_reset="earliest", value_deserializer=value_of
    )
    with reader:
        reader.assign([(topic, 0)])
        found = [offsets(reader.poll(10_000, 10)) for _ in range(6)]
    assert found == [list(range(at, at + 10)) for at in range(0, 60, 10)]
    assert len(refused) == 1
