"""Sessions in one database, on clocks that the tests set: who is buried, who leads, who may answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.unit.log.postgres.stage import Stage, on_stage

from kohort.cluster.lease import Effect, Fenced, LeaseTimes, SessionId
from kohort.log.postgres import burying
from kohort.log.postgres.burying import NodeWatch
from kohort.log.postgres.connections import Database, Purpose, Slot
from kohort.log.postgres.sessions import NodeAddress, Session, SessionListener
from kohort.model.ids import Instant, LeaderEpoch, NodeId

_CLOCK = """
CREATE SCHEMA {clock};
CREATE TABLE {clock}.moment AS SELECT timestamptz '2026-01-01' AS now;
CREATE FUNCTION {clock}.clock_timestamp() RETURNS timestamptz LANGUAGE sql
AS 'SELECT now FROM {clock}.moment';
"""


class Node:
    """A session that goes step by step, and what it said."""

    def __init__(self, world: "World", node_id: int | None) -> None:
        self.slot = Slot(world.database, Purpose.CATALOG)
        address = NodeAddress("localhost", 9092, None, None if node_id is None else NodeId(node_id))
        self.session = Session(world.database, self.slot, address, LeaseTimes(), lambda: Instant(world.now))
        self.said: list[str] = []
        self.session.listener = SessionListener(
            lambda version: None,
            lambda: self.said.append("serving"),
            lambda: self.said.append("lapsed"),
            self._ended,
        )

    async def _ended(self, effect: Effect) -> None:
        self.said.append("fenced" if isinstance(effect, Fenced) else "data lost")


class World:
    """Nodes, and the clocks of all of them and of the database."""

    def __init__(self, stage: Stage, database: Database) -> None:
        self.stage = stage
        self.database = database
        self.now = 1_000_000
        self.nodes: list[Node] = []

    async def join(self, node_id: int | None = None) -> Node:
        node = Node(self, node_id)
        await node.session.register()
        self.nodes.append(node)
        return node

    async def pass_time(self, milliseconds: int, *stepping: Node) -> None:
        """Time passes everywhere; the nodes named renew every 500 ms, and all others are paused."""
        for _ in range(milliseconds // 500):
            self.now += 500
            await self.step_database_clock(500)
            for node in stepping:
                await node.session.step()

    async def step_database_clock(self, milliseconds: int) -> None:
        await self.stage.admin.execute(
            f"UPDATE {self.database.schemas_before[0]}.moment SET now = now + $1::int * interval '1 ms'",
            milliseconds,
        )

    async def until_blocked(self, count: int) -> None:
        """Wait until so many statements wait for a lock."""
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while await self.stage.admin.fetchval(blocked) < count:
            pass

    async def living(self) -> list[SessionId]:
        rows = await self.stage.admin.fetch(
            "SELECT session FROM sessions WHERE state <> 'dead' ORDER BY session"
        )
        return [row[0] for row in rows]


@asynccontextmanager
async def holding_sessions(world: World) -> AsyncIterator[None]:
    """No session can be renewed or ended meanwhile."""
    holder = await world.database.connect(Purpose.ADMIN)
    await holder.execute("SET idle_in_transaction_session_timeout = 0; BEGIN")
    await holder.execute("SELECT 1 FROM sessions FOR UPDATE")
    yield
    await holder.execute("COMMIT")
    await holder.close()


def in_a_world(database: Database, story: Callable[[World], Awaitable[None]]) -> None:
    async def main(stage: Stage) -> None:
        clock = f"{database.schema}_clock"
        await stage.admin.execute(_CLOCK.format(clock=clock))
        world = World(stage, Database(database.url, database.schema, (clock,)))
        try:
            await story(world)
        finally:
            for node in world.nodes:
                await node.session.close()
                await node.slot.close()

    on_stage(database, main)


def test_a_node_gets_the_lowest_free_id_and_may_answer_once_it_has_renewed(database: Database) -> None:
    async def story(world: World) -> None:
        first, second = await world.join(), await world.join()
        assert [first.session.node_id, second.session.node_id] == [0, 1]
        assert not first.session.may_answer()
        await first.session.step()
        assert first.session.may_answer()
        world.now += 2_399
        assert first.session.may_answer()
        world.now += 1
        assert not first.session.may_answer()

    in_a_world(database, story)


def test_a_paused_node_is_buried_and_finds_out_when_it_wakes(database: Database) -> None:
    async def story(world: World) -> None:
        living, paused = await world.join(), await world.join()
        await world.pass_time(1_000, living, paused)
        dead = paused.session.session
        await world.pass_time(2_500, living)
        assert await world.living() == [living.session.session, dead]
        await world.pass_time(1_000, living)
        assert await world.living() == [living.session.session]
        assert not paused.session.may_answer()
        await paused.session.step()
        assert paused.said[-1] == "fenced"
        assert paused.session.session > dead
        assert not paused.session.may_answer()
        await paused.session.step()
        assert paused.session.may_answer()

    in_a_world(database, story)


class _BuriedError(Exception):
    pass


def test_a_dead_node_is_buried_as_soon_as_its_lease_is_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        async def pause(_session: Session, milliseconds: int) -> None:
            if len(await world.living()) == 1:
                raise _BuriedError
            world.now += milliseconds
            await world.step_database_clock(milliseconds)

        monkeypatch.setattr(Session, "pause", pause)
        living, dead = await world.join(), await world.join()
        await world.pass_time(1_000, living)
        world.now += 170
        await world.step_database_clock(170)
        await dead.session.step()
        last_renewal = world.now
        with pytest.raises(_BuriedError):
            await living.session.run()
        assert world.now - last_renewal <= 3_002

    in_a_world(database, story)


def test_a_short_pause_costs_nothing_but_a_lapse(database: Database) -> None:
    async def story(world: World) -> None:
        living, paused = await world.join(), await world.join()
        await world.pass_time(1_000, living, paused)
        before = paused.session.session
        await world.pass_time(2_500, living)
        await world.pass_time(500, living, paused)
        assert paused.session.session == before
        assert paused.session.may_answer()

    in_a_world(database, story)


def test_after_an_outage_of_the_database_nobody_is_buried(database: Database) -> None:
    async def story(world: World) -> None:
        nodes = [await world.join() for _ in range(3)]
        await world.pass_time(1_000, *nodes)
        before = await world.living()
        await world.stage.admin.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kohort lease'"
        )
        await world.pass_time(60_000)
        for node in nodes:
            await node.session.step()  # finds its connection broken
        await world.pass_time(2_000, *nodes)
        assert await world.living() == before
        assert [node.said for node in nodes] == 3 * [["serving", "lapsed", "serving"]]

    in_a_world(database, story)


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_database_clock_that_steps_buries_nobody_who_renews(database: Database, step_ms: int) -> None:
    async def story(world: World) -> None:
        nodes = [await world.join() for _ in range(3)]
        before = await world.living()
        for _ in range(4):
            await world.pass_time(1_000, *nodes)
            await world.step_database_clock(step_ms)
            await world.pass_time(500, *nodes)
        assert await world.living() == before

    in_a_world(database, story)


def test_a_database_that_forgot_a_renewal_ends_the_session(database: Database) -> None:
    async def story(world: World) -> None:
        node = await world.join()
        await world.pass_time(1_000, node)
        before = node.session.session
        await world.stage.admin.execute("UPDATE sessions SET renewals = 0")
        await node.session.step()
        assert node.said[-1] == "data lost"
        assert node.session.session != before
        assert await world.stage.admin.fetchval("SELECT data_lost_at FROM cluster") is not None

    in_a_world(database, story)


def test_a_node_id_in_use_is_waited_for(database: Database) -> None:
    async def story(world: World) -> None:
        old = await world.join(7)
        other = await world.join()
        waiting = asyncio.create_task(world.join(7))
        while not waiting.done():
            await world.pass_time(500, other)
            await asyncio.sleep(0)
        assert (await waiting).session.node_id == 7
        assert old.session.session not in await world.living()

    in_a_world(database, story)


def test_a_node_alone_outlives_the_session_of_its_id(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        async def pause(_watch: NodeWatch) -> None:
            await world.pass_time(500)

        monkeypatch.setattr(NodeWatch, "pause", pause)
        old = await world.join(7)
        assert (await world.join(7)).session.node_id == 7
        assert old.session.session not in await world.living()
        assert caplog.text.count("waiting until its session ends") == 1

    in_a_world(database, story)


def test_who_waits_for_an_id_buries_no_session_that_it_sees_too_seldom(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        looks = 0
        enough, over = asyncio.Event(), asyncio.Event()

        async def pause(_watch: NodeWatch) -> None:
            nonlocal looks
            looks += 1
            if looks > 10:
                enough.set()
                await over.wait()
            await world.pass_time(1_500)

        monkeypatch.setattr(NodeWatch, "pause", pause)
        old = await world.join(7)
        waiting = asyncio.create_task(world.join(7))
        await enough.wait()
        assert await world.living() == [old.session.session], "15 s without a renewal, and never watched"
        await old.session.end()
        over.set()
        await waiting

    in_a_world(database, story)


def test_a_node_that_renews_keeps_its_id(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burying, "_LOOK_AGAIN_S", 0)

    async def story(world: World) -> None:
        old = await world.join(7)
        waiting = asyncio.create_task(world.join(7))
        for _ in range(20):
            await world.pass_time(500, old)
        assert await world.living() == [old.session.session]
        assert not waiting.done()
        await old.session.end()
        assert (await waiting).session.node_id == 7

    in_a_world(database, story)


def test_a_session_that_ended_by_itself_answers_nothing_and_none_follows_it(database: Database) -> None:
    async def story(world: World) -> None:
        node = await world.join()
        await world.pass_time(500, node)
        assert node.session.may_answer()
        await node.session.end()
        assert not node.session.may_answer()
        await node.session.step()
        await node.session.run()
        assert await world.living() == []
        assert node.said == ["serving"]

    in_a_world(database, story)


def test_a_renewal_under_way_when_the_session_ends_begins_no_other(database: Database) -> None:
    async def story(world: World) -> None:
        node = await world.join()
        await world.pass_time(500, node)
        async with holding_sessions(world):
            ending = asyncio.create_task(node.session.end())
            await world.until_blocked(1)
            renewing = asyncio.create_task(node.session.step())
            await asyncio.sleep(0)
        await ending
        await renewing
        assert await world.living() == []

    in_a_world(database, story)


def test_a_window_that_closes_while_a_renewal_is_under_way_has_lapsed(database: Database) -> None:
    async def story(world: World) -> None:
        node = await world.join()
        await node.session.step()
        world.now += 1_500
        async with holding_sessions(world):
            renewing = asyncio.create_task(node.session.step())
            await world.until_blocked(1)
            world.now += 1_000
        await renewing
        assert node.said == ["serving", "lapsed", "serving"]

    in_a_world(database, story)


def test_a_burial_that_has_to_wait_does_not_cost_the_own_lease(database: Database) -> None:
    async def story(world: World) -> None:
        living, dead = await world.join(), await world.join()
        await world.pass_time(3_000, living)
        async with living.slot.use():  # as a slow change of the catalog
            await world.pass_time(500, living)
            assert living.session.may_answer()
        assert dead.session.session in await world.living()
        await world.pass_time(500, living)
        assert dead.session.session not in await world.living()

    in_a_world(database, story)


def test_only_what_no_living_session_leads_is_taken(database: Database) -> None:
    async def story(world: World) -> None:
        first, second = await world.join(), await world.join()
        await world.stage.add_partitions(4, None)
        partitions = world.stage.partitions
        assert await first.session.take(partitions[:3]) == dict.fromkeys(partitions[:3], LeaderEpoch(1))
        assert await second.session.take(partitions) == {partitions[3]: LeaderEpoch(1)}
        await world.pass_time(1_000, first, second)
        await world.pass_time(4_000, second)
        assert await first.session.take(partitions) == {}, "the dead take nothing"
        assert await second.session.take(partitions) == dict.fromkeys(partitions[:3], LeaderEpoch(2))
        epochs = await world.stage.admin.fetch(
            "SELECT leader_epoch, start_offset FROM leader_epochs WHERE partition_id = $1", partitions[0]
        )
        assert [tuple(row) for row in epochs] == [(1, 0), (2, 0)]

    in_a_world(database, story)


def test_a_hand_over_goes_to_the_living_only(database: Database) -> None:
    async def story(world: World) -> None:
        first, second = await world.join(), await world.join()
        await world.stage.add_partitions(2, None)
        partitions = world.stage.partitions
        await first.session.take(partitions)
        assert await second.session.hand_over(partitions, second.session.session) == [], "not its own"
        assert await first.session.hand_over(partitions[:1], second.session.session) == partitions[:1]
        await second.session.announce_leaving()
        assert await first.session.hand_over(partitions[1:], second.session.session) == []
        await second.session.end()
        assert await world.living() == [first.session.session]

    in_a_world(database, story)


def test_an_epoch_that_is_taken_again_is_above_all_that_were_in_use(database: Database) -> None:
    async def story(world: World) -> None:
        node = await world.join()
        await world.stage.add_partitions(2, None)
        partitions = world.stage.partitions
        await node.session.take(partitions)
        again = await node.session.take_again(partitions, [LeaderEpoch(9), LeaderEpoch(0)])
        assert again == {partitions[0]: 10, partitions[1]: 2}
        await node.session.announce_leaving()
        again = await node.session.take_again(partitions[:1], [LeaderEpoch(10)])
        assert again == {partitions[0]: 11}, "who leaves still leads what it could not give away"
        await node.session.end()
        assert await node.session.take_again(partitions, [LeaderEpoch(11), LeaderEpoch(2)]) == {}

    in_a_world(database, story)


def test_an_append_under_way_is_below_the_epoch_that_is_taken_meanwhile(database: Database) -> None:
    async def story(world: World) -> None:
        node = await world.join()
        await world.stage.add_partitions(1, None)
        (partition,) = world.stage.partitions
        appending = await world.stage.database.connect(Purpose.LANE)
        await appending.execute("SET idle_in_transaction_session_timeout = 0; BEGIN")
        await appending.execute("SELECT 1 FROM partitions FOR NO KEY UPDATE")
        await appending.execute(
            "INSERT INTO batches VALUES ($1, 0, 5, 0, 0, 0, 1, 'x')".replace("$1", str(partition))
        )
        taking = asyncio.create_task(node.session.take([partition]))
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not await world.stage.admin.fetchval(blocked):
            pass
        await appending.execute("COMMIT")
        assert await taking == {partition: 1}
        assert await world.stage.admin.fetchval("SELECT start_offset FROM leader_epochs") == 6
        await appending.close()

    in_a_world(database, story)
