"""Applications that stall, raise, wake up or interfere, and members that leave their group in the lurch."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.client.consumer.stage import P0, TURNS, Stage, joined, on_stage, read
from tests.unit.client.consumer.test_reading import Held

from kohort.broker.context import Result
from kohort.client.consumer import AsyncConsumer, Consumer
from kohort.client.errors import CallbackFailedError, CommitFailedError, ConcurrentUseError, WakeupError
from kohort.client.subscription import Partitions
from kohort.testing.broker import AsyncBroker, Broker
from kohort.testing.intercept import Action, Proceed, Seen, swallow, watch
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest

pytestmark = pytest.mark.slow


def ringing(ring: Callable[[], object]) -> Action:
    """Tell somebody that the request came, and let the broker answer it."""

    def act(_seen: Seen, proceed: Proceed) -> Result:
        ring()
        return proceed()

    return act


class Diary:
    """Notes what it hears; raises at the words it was given."""

    def __init__(self, *raising: str) -> None:
        self.heard: list[str] = []
        self._raising = raising

    def _hear(self, word: str, partitions: Partitions) -> None:
        self.heard.append(f"{word} {len(partitions)}")
        if word in self._raising and partitions:
            raise ValueError(f"{word} is not to my taste")

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        self._hear("assigned", partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._hear("revoked", partitions)

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self._hear("lost", partitions)


@contextmanager
def written_to_the_log(words: str) -> Iterator[asyncio.Event]:
    """An event that the line with these words sets."""
    written = asyncio.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if words in record.getMessage():
                written.set()

    log, listening = logging.getLogger("kohort.client.consumer.member"), Listening()
    log.addHandler(listening)
    try:
        yield written
    finally:
        log.removeHandler(listening)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(configs={"group.initial.rebalance.delay.ms": 0}) as embedded:
        yield embedded


# --- time between polls -------------------------------------------------------------------------


@on_stage
async def test_an_application_that_stalls_is_out_and_told_which_setting_to_raise(stage: Stage) -> None:
    """T34 on a real loop: the member leaves by itself, and comes back with the next poll."""
    left = asyncio.Event()
    rule = stage.broker.intercept(ringing(left.set), api="LeaveGroup")
    async with stage.reader(
        "t", group_id="g", max_poll_interval_ms=1_000, heartbeat_interval_ms=10, enable_auto_commit=False
    ) as consumer:
        diary = Diary()
        consumer.subscribe(["t"], listener=diary)
        await read(consumer, 3)
        before = consumer.group_metadata()
        await left.wait()  # processing takes that long
        with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms.*max\.poll\.records"):
            await consumer.commit()
        assert [one.offset for one in await read(consumer, 3)] == [0, 1, 2]  # nothing was committed
        assert consumer.group_metadata().member_id != before.member_id
        assert diary.heard == ["assigned 1", "lost 1", "assigned 1"]
    reason = rule.seen[0].request
    assert isinstance(reason, LeaveGroupRequest)
    assert "max.poll.interval.ms is 1000" in (reason.members[0].reason or "")


@on_stage
async def test_a_static_member_that_stalls_says_nothing_and_comes_back(stage: Stage) -> None:
    """T35."""
    left = stage.broker.intercept(watch, api="LeaveGroup")
    async with stage.reader(
        "t", group_id="g", group_instance_id="i", max_poll_interval_ms=1_000, heartbeat_interval_ms=10
    ) as consumer:
        diary = Diary()
        consumer.subscribe(["t"], listener=diary)
        with written_to_the_log("no poll for max.poll.interval.ms (1000)") as stalled:
            await read(consumer, 3)
            await stalled.wait()
        await joined(consumer)
        assert diary.heard == ["assigned 1", "lost 1", "assigned 1"]
    assert left.seen == []


def test_heartbeats_go_on_while_the_application_works_without_a_loop(broker: Broker) -> None:
    beats = threading.Semaphore(0)
    with Consumer(
        "t", bootstrap_servers=broker.bootstrap, group_id="g", heartbeat_interval_ms=10
    ) as consumer:
        while not consumer.assignment():
            consumer.poll(20)
        generation = consumer.group_metadata()
        joins = broker.intercept(watch, api="JoinGroup")
        broker.intercept(ringing(beats.release), api="Heartbeat")
        for _ in range(5):
            assert beats.acquire(timeout=60)  # the thread that polls waits for each of them
        consumer.poll(20)
        assert consumer.group_metadata() == generation
        assert joins.seen == []


@on_stage
async def test_positions_are_committed_on_time_without_being_asked(stage: Stage) -> None:
    commits = stage.broker.intercept(watch, api="OffsetCommit")
    async with stage.reader("t", group_id="g", auto_commit_interval_ms=20) as consumer:
        await read(consumer, 3)
        offsets: list[int] = []
        for _ in range(TURNS):
            await consumer.poll(5)
            offsets = [
                one.committed_offset
                for seen in commits.seen
                if isinstance(seen.request, OffsetCommitRequest)
                for topic in seen.request.topics
                for one in topic.partitions
            ]
            if offsets[-2:] == [3, 3]:
                break
        assert offsets[-2:] == [3, 3]  # and again, though nothing changed


# --- callbacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["assigned", "revoked", "lost"])
@on_stage
async def test_a_callback_that_raises_is_heard_of_and_changes_nothing(stage: Stage, word: str) -> None:
    diary = Diary(word)
    patience = 1_000 if word == "lost" else 300_000
    async with stage.reader("t", group_id="g", max_poll_interval_ms=patience) as consumer:
        consumer.subscribe(["t"], listener=diary)
        if word == "assigned":
            with pytest.raises(CallbackFailedError, match="assigned is not to my taste"):
                await joined(consumer)
        with written_to_the_log("no poll for max.poll.interval.ms") as stalled:
            await joined(consumer)
            if word == "lost":
                await stalled.wait()
        if word == "revoked":
            consumer.enforce_rebalance("to see what happens")
        if word != "assigned":
            with pytest.raises(CallbackFailedError, match=f"{word} is not to my taste"):
                await until(consumer, lambda: False)
            await until(consumer, lambda: len(diary.heard) >= 3 and bool(consumer.assignment()))
            assert diary.heard[1:3] == [f"{word} 1", "assigned 1"]
        assert consumer.assignment() == {P0}
        consumer.seek_to_beginning()
        assert len(await read(consumer, 3)) == 3
        await consumer.unsubscribe() if word != "revoked" else await refused_goodbye(consumer)


async def refused_goodbye(consumer: AsyncConsumer) -> None:
    """The member leaves all the same."""
    with pytest.raises(CallbackFailedError, match="revoked is not to my taste"):
        await consumer.unsubscribe()
    assert consumer.assignment() == set()


async def until(consumer: AsyncConsumer, holds: Callable[[], bool]) -> None:
    for _ in range(TURNS):
        await consumer.poll(5)
        if holds():
            return
    raise AssertionError("it never came to that")


def test_callbacks_of_a_plain_program_may_use_the_consumer_and_nobody_else_may(
    broker: Broker,
) -> None:
    refused: list[Exception] = []

    class Meddling:
        def on_partitions_assigned(self, partitions: Partitions) -> None:
            assert consumer.position(partitions[0]) == 0
            thread = threading.Thread(target=self.interfere)
            thread.start()
            thread.join()

        def interfere(self) -> None:
            for call in (consumer.poll, consumer.close, consumer.commit, consumer.unsubscribe):
                try:
                    call()
                except ConcurrentUseError as error:
                    refused.append(error)

        def on_partitions_revoked(self, partitions: Partitions) -> None:
            consumer.commit({partitions[0]: 0})

    with Consumer(bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"], listener=Meddling())
        while not consumer.assignment():
            consumer.poll(20)
        consumer.unsubscribe()
        (committed,) = consumer.committed(("t", 0)).values()
        assert committed is not None
    assert len(refused) == 4
    assert "thread" in str(refused[0])


# --- wakeups ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "api", ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "Metadata", "Fetch"]
)
@on_stage
async def test_a_wakeup_ends_a_poll_in_any_phase_and_the_next_one_goes_on(stage: Stage, api: str) -> None:
    """T20: what was sent is not sent again; T1: one wakeup, one error."""
    held = Held()
    async with stage.reader("t", group_id="g") as consumer:
        joins = stage.broker.intercept(watch, api="JoinGroup")
        stage.broker.intercept(held, api=api, times=1)
        poll = asyncio.create_task(consumer.poll(60_000))
        await held.arrived.wait()
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await poll
        assert await consumer.poll(5) == {}
        held.may_go.set()
        assert [one.value for one in await read(consumer, 3)] == [b"a", b"b", b"c"]
    expected = 1 if api == "JoinGroup" else 2  # the first one only gets a member id; ``held`` saw one of them
    assert len(joins.seen) == expected


# --- a leader that never syncs ------------------------------------------------------------------


def test_a_leader_that_never_syncs_is_left_behind(tmp_path: Path) -> None:
    """Time is the broker's: it drops the leader when the rebalance timeout is over."""

    async def story() -> None:
        configs = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
        async with AsyncBroker(data=tmp_path, configs=configs, virtual_time=True) as broker:
            stage = Stage(broker)
            assert broker.clock is not None
            async with (
                stage.reader("t", group_id="g", client_id="leader", max_poll_interval_ms=30_000) as leader,
                stage.reader(
                    "t", group_id="g", client_id="follower", max_poll_interval_ms=30_000
                ) as follower,
            ):
                await joined(leader)
                stuck = broker.intercept(swallow, api="SyncGroup", client="leader")
                waiting = broker.intercept(watch, api="SyncGroup", client="follower")
                polls = asyncio.create_task(keep_polling(leader))
                while not (stuck.seen and waiting.seen):
                    await follower.poll(5)
                broker.clock.advance(30_000)  # as long as a rebalance may take
                await joined(follower)
                assert follower.assignment() == {P0}
                polls.cancel()
                await asyncio.wait([polls])
                assert leader.assignment() == set()
                await leader.close(timeout_ms=50)  # its connection waits for an answer that never comes

    asyncio.run(asyncio.wait_for(story(), 90))


async def keep_polling(consumer: AsyncConsumer) -> None:
    while True:
        await consumer.poll(5)
