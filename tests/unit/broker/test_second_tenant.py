"""A coordinator of another kind on the same runtime: counters, kept in a topic of their own.

Nothing here knows groups, and the runtime knows nothing of counters.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from kohort.broker.broker import BrokerState
from kohort.broker.clock import VirtualClock
from kohort.broker.partition_runtime import PartitionRuntime, Status
from kohort.broker.settings import Settings
from kohort.broker.storage import open_data
from kohort.broker.topic_runtime import TopicRuntime
from kohort.broker.topics import TopicToCreate
from kohort.coordination.outcome import BatchProducer, CommandOutcome
from kohort.coordination.positions import Positions, Reply
from kohort.log.files.memory import MemoryDisk
from kohort.log.log import Append, Slice
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Instant, Now, ProducerId, ReplyTo, TopicName
from kohort.primitives.buffers import Buffer
from kohort.records.batch import read_records
from kohort.records.header import BatchHeader, batches

COUNTERS = TopicName("counters")
SECOND_MS = 1_000


class Add(NamedTuple):
    """Add to a counter; the reply is its value."""

    name: str
    amount: int = 1
    reply_to: ReplyTo = ReplyTo(0)
    producer: BatchProducer | None = None


class Fill(NamedTuple):
    """Set many counters; they need not be stored at once."""

    names: tuple[str, ...]


class Answer(NamedTuple):
    value: int
    error: ErrorCode = ErrorCode.NONE


class Counters:
    """The second tenant: a shard of counters, with one timer that adds one to ``ticks`` every second."""

    def __init__(self, now: Instant, _max_batch_bytes: int) -> None:
        self.values: dict[str, int] = {}
        self.positions = Positions[Answer]()
        self.due: Instant | None = None
        self.skipped: dict[str, int] = {}

    def handle(self, command: Add | Fill, now: Now) -> CommandOutcome[str, Answer]:
        out: CommandOutcome[str, Answer] = CommandOutcome(self.positions, now)
        if isinstance(command, Fill):
            out.is_atomic = False
            for name in command.names:
                self._set(name, 7, out)
        else:
            if command.amount == 13:
                raise ValueError("a bug")
            out.producer = command.producer
            if command.amount:
                self._set(command.name, self.values.get(command.name, 0) + command.amount, out)
            value = Answer(self.values.get(command.name, 0))
            out.reply(command.reply_to, value, self.positions.of(command.name))
        out.close()
        return out

    def _set(self, name: str, value: int, out: CommandOutcome[str, Answer]) -> None:
        self.values[name] = value
        out.events.append(f"{name} is {value}")
        out.write(name, [(name.encode(), str(value).encode())])

    def next_deadline(self) -> Instant | None:
        return self.due

    def advance(self, now: Now) -> CommandOutcome[str, Answer]:
        out: CommandOutcome[str, Answer] = CommandOutcome(self.positions, now)
        if self.due is not None and self.due <= now.instant:
            self.due = Instant(self.due + SECOND_MS)
            self._set("ticks", self.values.get("ticks", 0) + 1, out)
        out.close()
        return out

    def appended(self, position: int) -> list[Reply[Answer]]:
        return self.positions.store(position)

    def unload(self, now: Now, refused: ErrorCode | None) -> CommandOutcome[str, Answer]:
        out: CommandOutcome[str, Answer] = CommandOutcome(self.positions, now)
        out.events.append(f"unloaded: {refused and refused.name}")
        return out

    def refuse(self, command: Add | Fill, refused: ErrorCode) -> Answer:
        return Answer(-1, refused)

    def replay_batch(self, batch: Buffer, header: BatchHeader) -> None:
        for record in read_records(batch, 0, header):
            self.values[(record.key or b"").decode()] = int(record.value or b"0")

    def load_more(self, now: Now) -> CommandOutcome[str, Answer] | None:
        return None

    def finish_load(self, now: Now) -> CommandOutcome[str, Answer]:
        self.due = Instant(now.instant + SECOND_MS)
        return CommandOutcome(self.positions, now)


class House:
    """A broker without sockets, and the counters in it."""

    def __init__(self, broker: BrokerState, clock: VirtualClock) -> None:
        self.broker = broker
        self.clock = clock
        self.events: list[str] = []
        self.counters: TopicRuntime[Counters] = TopicRuntime(
            broker.storage, clock, lambda now, limit, _partition: Counters(now, limit), self.events.extend
        )

    @classmethod
    async def start(cls, disk: MemoryDisk | None = None) -> "House":
        settings, clock = Settings(), VirtualClock()
        catalog, storage = await open_data(settings, disk or MemoryDisk())
        house = cls(BrokerState(settings, catalog, storage, clock), clock)
        await house.broker.start()
        topic = house.broker.topics.get(COUNTERS)
        house.counters.follow(
            topic or await house.broker.topics.create(TopicToCreate(COUNTERS, partitions=2))
        )
        await house.counters.ready()
        return house

    async def stop(self) -> None:
        await self.counters.close()
        await self.broker.stop()

    def runtime(self, name: str) -> PartitionRuntime[Counters]:
        found = self.counters.of(name)
        assert found is not None
        return found

    def ask(
        self, name: str, amount: int = 1, producer: BatchProducer | None = None
    ) -> Awaitable[Answer] | Answer:
        answer: Awaitable[Answer] | Answer = self.runtime(name).ask(
            lambda reply_to: Add(name, amount, reply_to, producer)
        )
        return answer

    async def add(self, name: str, amount: int = 1, producer: BatchProducer | None = None) -> Answer:
        answer = self.ask(name, amount, producer)
        return answer if isinstance(answer, Answer) else await answer

    def headers(self, name: str) -> list[BatchHeader]:
        log = self.runtime(name).log
        found = log.read(log.start_offset, 1 << 20, limit=log.high_watermark, at_least_one=True)
        assert isinstance(found, Slice)
        return [header for buffer in found.buffers for _, header in batches(memoryview(buffer))]

    @contextmanager
    def refusing(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """The storage takes nothing."""

        def refuse(appends: Sequence[Append]) -> "asyncio.Future[Any]":
            future = asyncio.get_running_loop().create_future()
            future.set_result([RefusedError(ErrorCode.KAFKA_STORAGE_ERROR) for _ in appends])
            return future

        with monkeypatch.context() as patch:
            patch.setattr(self.broker.storage, "append", refuse)
            yield


def test_a_tenant_counts_answers_what_is_stored_and_comes_back_after_a_restart() -> None:
    async def run() -> None:
        disk = MemoryDisk()
        house = await House.start(disk)
        assert await house.add("a") == Answer(1)
        assert await asyncio.gather(*(house.add("a") for _ in range(3))) == [Answer(2), Answer(3), Answer(4)]
        assert await house.add("b", 5) == Answer(5)
        assert house.events == ["a is 1", "a is 2", "a is 3", "a is 4", "b is 5"]
        await house.stop()
        again = await House.start(disk)
        assert [await again.add(name, 0) for name in "ab"] == [Answer(4), Answer(5)]
        await again.stop()

    asyncio.run(run())


def test_a_read_waits_for_the_write_that_it_shows_and_for_no_other() -> None:
    async def run() -> None:
        house = await House.start()
        await house.add("a")
        write, read = house.ask("a"), house.ask("a", 0)
        assert isinstance(write, asyncio.Future)
        assert isinstance(read, asyncio.Future)
        await write
        assert read.done()
        assert house.ask("a", 0) == Answer(2)
        await house.stop()

    asyncio.run(run())


def test_timers_run_on_the_clock_of_the_broker() -> None:
    async def run() -> None:
        house = await House.start()
        for expected in (1, 2):
            house.clock.advance(SECOND_MS)
            assert await house.add("ticks", 0) == Answer(expected)
        await house.stop()

    asyncio.run(run())


def test_a_timer_that_rings_late_lets_those_go_first_who_were_in_time() -> None:
    async def run() -> None:
        house = await House.start()
        runtime = house.runtime("ticks")
        house.clock.stall(5 * SECOND_MS)
        house.clock.advance(0)  # the alarm rings, four seconds late
        assert "ticks" not in runtime.shard.values
        runtime.shard.due = Instant(10 * SECOND_MS)  # what came in meanwhile is read, and moves the deadline
        house.clock.advance(1)
        assert "ticks" not in runtime.shard.values
        house.clock.advance(5 * SECOND_MS)
        assert runtime.shard.values["ticks"] == 1
        await house.stop()

    asyncio.run(run())


def test_a_deadline_that_has_passed_before_it_is_known_is_not_late() -> None:
    async def run() -> None:
        house = await House.start()
        runtime = house.runtime("ticks")
        house.clock.advance(10 * SECOND_MS)
        before = runtime.shard.values["ticks"]
        runtime.shard.due = Instant(9 * SECOND_MS + 100)  # as after a load that took a second
        await house.add("ticks", 0)
        await asyncio.sleep(0)
        assert runtime.shard.values["ticks"] == before + 1  # without another move of the clock
        await house.stop()

    asyncio.run(run())


@pytest.mark.parametrize("is_control", [False, True])
def test_a_batch_in_the_name_of_a_producer_is_shared_with_nobody(is_control: bool) -> None:
    async def run() -> None:
        house = await House.start()
        producer = BatchProducer(ProducerId(42), epoch=3, is_control=is_control)
        asked = [house.add("a"), house.add("a"), house.add("a", 1, producer), house.add("a"), house.add("a")]
        assert [answer.value for answer in await asyncio.gather(*asked)] == [1, 2, 3, 4, 5]
        plain, owned, after = house.headers("a")
        assert [header.records_count for header in (plain, owned, after)] == [2, 1, 2]
        assert (owned.producer_id, owned.producer_epoch) == (42, 3)
        assert (owned.is_transactional, owned.is_control) == (True, is_control)
        assert {plain.producer_id, after.producer_id} == {-1}
        await house.stop()

    asyncio.run(run())


def test_what_need_not_be_atomic_is_cut_into_batches_that_the_log_takes() -> None:
    async def run() -> None:
        house = await House.start()
        names = tuple(f"{number:0100}" for number in range(4_000))
        runtime = house.runtime("a")
        await runtime.order(Fill(names))
        counts = [header.records_count for header in house.headers("a")]
        assert len(counts) > 1
        assert sum(counts) == 4_000
        await house.stop()

    asyncio.run(run())


def test_an_append_that_fails_answers_everyone_and_goes_on_from_what_is_stored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        house = await House.start()
        await house.add("a", 10)
        with house.refusing(monkeypatch):
            answers = await asyncio.gather(house.add("a"), house.add("a", 0))
        assert set(answers) == {Answer(-1, ErrorCode.KAFKA_STORAGE_ERROR)}
        assert house.events[-1] == "unloaded: KAFKA_STORAGE_ERROR"
        await house.counters.ready()
        assert await house.add("a", 0) == Answer(10)
        assert await house.add("a") == Answer(11)
        await house.stop()

    asyncio.run(run())
    assert "an append failed, the coordinator is loaded from its log again" in caplog.text


def test_an_order_that_was_not_stored_is_done_again_after_the_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        house = await House.start()
        await house.add("a")
        with house.refusing(monkeypatch):
            await house.runtime("a").order(Fill(("b",)))
        await house.counters.ready()
        assert house.runtime("a").shard.values["b"] == 7
        await house.stop()

    asyncio.run(run())


def test_a_log_that_refuses_again_and_again_is_given_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        house = await House.start()
        await house.add("a")
        runtime = house.runtime("a")
        with house.refusing(monkeypatch):
            for pause in (0, 100, 200, 400):
                assert (await house.add("a")).error is ErrorCode.KAFKA_STORAGE_ERROR
                if pause:
                    house.clock.advance(pause - 1)
                    await house.counters.ready()
                    assert runtime.status is Status.LOADING
                    house.clock.advance(1)
                await house.counters.ready()
                assert runtime.status is Status.ACTIVE
        assert await house.add("a") == Answer(2)
        assert runtime.failures == 0
        await house.stop()

    asyncio.run(run())


def test_a_bug_in_the_tenant_is_answered_and_the_shard_is_loaded_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        house = await House.start()
        await house.add("a")
        waiting = house.ask("a")
        assert (await house.add("a", 13)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert isinstance(waiting, asyncio.Future)
        assert (await waiting).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await house.counters.ready()
        assert await house.add("a") == Answer(2)
        await house.stop()

    asyncio.run(run())
    assert "after a bug" in caplog.text


def test_who_waits_when_the_topic_goes_is_refused() -> None:
    async def run() -> None:
        house = await House.start()
        waiting = house.ask("a")
        assert isinstance(waiting, asyncio.Future)
        runtime = house.runtime("a")
        await house.counters.close()
        assert (await waiting).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert runtime.status is Status.STOPPED
        assert house.counters.of("a") is None
        await house.broker.stop()

    asyncio.run(run())
