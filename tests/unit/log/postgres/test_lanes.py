"""Appends are stored once, at their offsets, whatever happens to connections and leaders meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from tests.unit.log.postgres.stage import Bench, Break, Breaking, Stage, on_stage

from kohort.log.postgres.connections import Database, Purpose
from kohort.log.postgres.lanes import LARGE_BATCH, Refused, Stored
from kohort.log.postgres.resolve import LedPartition
from kohort.model.ids import LeaderEpoch, Offset
from kohort.testing.proxy import AsyncProxy, Direction

Story = Callable[[Bench], Awaitable[None]]


def on_a_lane(
    database: Database,
    story: Story,
    *,
    at: int = 0,
    how: Break = Break.BEFORE,
    error: Exception | None = None,
) -> None:
    """A lane of a session that leads three partitions; its connections may break at a statement."""

    async def main(stage: Stage) -> None:
        session = await stage.add_session()
        await stage.add_partitions(3, session)
        breaking = Breaking(stage, at, how)
        breaking.error = error or breaking.error
        bench = Bench(stage, session, breaking.connect)
        bench.breaking = breaking
        try:
            await story(bench)
        finally:
            await bench.lane.close()

    on_stage(database, main)


def test_what_gathers_is_stored_in_one_transaction(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.append((0, 0, b"a"), (1, 0, b"b"), (0, 1, b"c"), (0, 2, b"d"))
        assert bench.outcomes.stored == [b"a", b"b", b"c", b"d"]
        assert bench.breaking.statements == 1
        first, second, _ = bench.stage.partitions
        assert await bench.stage.stored(first) == [(0, 0, b"a"), (1, 1, b"c"), (2, 2, b"d")]
        assert await bench.stage.stored(second) == [(0, 0, b"b")]

    on_a_lane(database, story)


def test_a_large_batch_goes_alone(database: Database) -> None:
    large = bytes(LARGE_BATCH)

    async def story(bench: Bench) -> None:
        await bench.append((0, 0, b"a"), (0, 1, large), (0, 2, b"c"))
        assert bench.breaking.statements == 3
        assert [row[2] for row in await bench.stage.stored(bench.stage.partitions[0])] == [b"a", large, b"c"]

    on_a_lane(database, story)


def test_a_replaced_leader_stores_nothing_and_its_neighbours_do(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.stage.admin.execute(
            "UPDATE partitions SET leader_epoch = 1 WHERE partition_id = $1", bench.stage.partitions[0]
        )
        await bench.append((0, 0, b"a"), (1, 0, b"b"), (0, 1, b"later"))
        assert bench.outcomes.stored == [b"b"]
        for content in (b"a", b"later"):
            outcome = bench.outcomes.settled[content]
            assert isinstance(outcome, Refused)
            assert outcome.is_fenced
        assert await bench.stage.stored(bench.stage.partitions[0]) == []

    on_a_lane(database, story)


@pytest.mark.parametrize("base", [0, 2, 9])
@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_that_does_not_follow_the_last_one_is_refused(
    database: Database, base: int, count: int
) -> None:
    async def story(bench: Bench) -> None:
        await bench.append((0, 0, b"first"))
        await bench.append(*[(0, base + each, b"%d" % each) for each in range(count)])
        assert bench.outcomes.stored == [b"first"]

    on_a_lane(database, story)


def test_the_chain_begins_at_the_start_offset(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.stage.admin.execute("UPDATE partitions SET start_offset = 7")
        await bench.append((0, 7, b"a"), (1, 7, b"b"))
        await bench.append((0, 8, b"c"))
        assert bench.outcomes.settled[b"c"] == Stored(Offset(7))
        assert bench.outcomes.stored == [b"a", b"b", b"c"]

    on_a_lane(database, story)


WORKLOAD = [
    [(0, 0, b"a"), (1, 0, b"b")],
    [(0, 1, b"c")],
    [(0, 2, b"d"), (0, 3, b"e"), (1, 1, b"f"), (2, 0, b"g")],
    [(2, 1, b"h")],
]


async def _work(bench: Bench) -> None:
    for batches in WORKLOAD:
        await bench.append(*batches)
    await _check_all_is_stored_once(bench)


async def _check_all_is_stored_once(bench: Bench) -> None:
    for number, partition in enumerate(bench.stage.partitions):
        wanted = [
            (base, base, what) for batches in WORKLOAD for each, base, what in batches if each == number
        ]
        assert await bench.stage.stored(partition) == wanted
    assert len(bench.outcomes.stored) == sum(map(len, WORKLOAD))


@pytest.mark.parametrize("how", [Break.BEFORE, Break.AFTER])
@pytest.mark.parametrize("at", range(1, 2 * len(WORKLOAD)))
def test_the_connection_may_break_at_every_statement(database: Database, at: int, how: Break) -> None:
    on_a_lane(database, _work, at=at, how=how)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.SerializationError("could not serialize"),
        asyncpg.DeadlockDetectedError("deadlock detected"),
        asyncpg.LockNotAvailableError("lock timeout"),
        asyncpg.QueryCanceledError("statement timeout"),
        asyncpg.DiskFullError("disk full"),
        asyncpg.OutOfMemoryError("out of memory"),
        asyncpg.TooManyConnectionsError("too many"),
        asyncpg.CannotConnectNowError("starting up"),
        asyncpg.AdminShutdownError("terminated"),
        TimeoutError(),
        ConnectionResetError(),
        asyncpg.InternalClientError("another operation is in progress"),  # the server was killed
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_an_error_leaves_unstored_is_sent_again(database: Database, error: Exception) -> None:
    on_a_lane(database, _work, at=1, how=Break.BEFORE, error=error)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_transaction_that_outlives_its_connection_is_stored_once(
    database: Database, at: int, commit: bool
) -> None:
    async def story(bench: Bench) -> None:
        await asyncio.gather(_work(bench), bench.breaking.finish(commit=commit))

    on_a_lane(database, story, at=at, how=Break.ZOMBIE)


def test_an_outcome_that_stays_unknown_is_refused_when_the_window_closes(database: Database) -> None:
    async def story(bench: Bench) -> None:
        bench.breaking.broken = lambda: setattr(bench, "may_wait", False)
        await bench.append((0, 0, b"a"), (1, 0, b"b"))
        assert bench.outcomes.stored == []
        assert not any(
            each.is_fenced for each in bench.outcomes.settled.values() if isinstance(each, Refused)
        )
        assert bench.breaking.statements == 1

    on_a_lane(database, story, at=1, how=Break.AFTER)


def test_nothing_is_sent_while_the_window_is_closed(database: Database) -> None:
    async def story(bench: Bench) -> None:
        bench.may_wait = False
        await bench.append((0, 0, b"a"))
        assert bench.outcomes.settled[b"a"] == Refused(False, "this node has lost touch with its cluster")
        assert bench.breaking.statements == 0

    on_a_lane(database, story, at=1, how=Break.AFTER)


def test_an_error_that_is_not_foreseen_refuses_what_was_sent_and_the_lane_goes_on(database: Database) -> None:
    async def story(bench: Bench) -> None:
        bench.breaking.broken = lambda: bench.lane.submit(
            [bench.outcomes.proposal(bench.stage.partitions[1], 0, b"meanwhile")]
        )
        await bench.append((0, 0, b"a"))
        assert isinstance(bench.outcomes.settled[b"a"], Refused)
        assert bench.outcomes.settled[b"meanwhile"] == Stored(Offset(0))

    on_a_lane(database, story, at=1, error=KeyError("a bug"))


def test_a_bug_after_some_partitions_are_settled_settles_none_twice(database: Database) -> None:
    def fail() -> list[LedPartition]:
        raise KeyError("a bug")

    async def story(bench: Bench) -> None:
        bench.find_led = fail
        await bench.append((0, 0, b"a"), (1, 0, b"b"))
        assert bench.outcomes.stored == [b"a", b"b"]

    on_a_lane(database, story, at=1, how=Break.AFTER)


def test_a_take_over_meanwhile_is_noticed_when_the_outcome_is_looked_up(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.stage.admin.execute("UPDATE partitions SET leader = NULL, leader_epoch = 1")
        await bench.append((0, 0, b"a"))
        outcome = bench.outcomes.settled[b"a"]
        assert isinstance(outcome, Refused)
        assert outcome.is_fenced

    on_a_lane(database, story, at=1, how=Break.AFTER)


def test_a_database_that_forgot_records_is_noticed_after_a_lost_connection(database: Database) -> None:
    async def story(bench: Bench) -> None:
        first, second, third = bench.stage.partitions
        bench.led = [
            LedPartition(first, LeaderEpoch(0), Offset(0)),
            LedPartition(second, LeaderEpoch(0), Offset(1)),
            LedPartition(third, LeaderEpoch(1), Offset(0)),
        ]
        await bench.append((0, 0, b"a"))
        assert bench.lost == [second, third]

    on_a_lane(database, story, at=1, how=Break.BEFORE)


def test_an_error_that_would_come_again_is_refused_at_once(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.append((0, 0, b"a"))
        assert isinstance(bench.outcomes.settled[b"a"], Refused)
        assert bench.breaking.statements == 1

    on_a_lane(database, story, at=1, error=asyncpg.InsufficientPrivilegeError("permission denied"))


def test_a_reply_that_the_network_loses_is_not_stored_twice(database: Database) -> None:
    async def main(stage: Stage) -> None:
        session = await stage.add_session()
        await stage.add_partitions(3, session)
        address = database.url.partition("@")[2].partition("/")[0]
        async with AsyncProxy(address) as proxy:
            through = Database(database.url.replace(address, proxy.bootstrap), database.schema)
            bench = Bench(stage, session, lambda: through.connect(Purpose.LANE))
            await bench.append(*WORKLOAD[0])
            proxy.drop(Direction.BACK)
            lost = asyncio.create_task(bench.append(*WORKLOAD[1]))
            await proxy.until(lambda: proxy.lost > 0)
            await proxy.heal()
            await lost
            for batches in WORKLOAD[2:]:
                await bench.append(*batches)
            await _check_all_is_stored_once(bench)
            await bench.lane.close()

    on_stage(database, main)
