"""A consumer and a network that fails: the coordinator dies, moves, answers late or not at all."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Unpack

import pytest
from tests.unit.client.consumer.stage import P0, TURNS, Stage, read, spoiled

from kohort.client.addresses import parse_address
from kohort.client.connection import open_connection
from kohort.client.consumer import AsyncConsumer
from kohort.client.consumer.settings import ConsumerOptions
from kohort.client.errors import CommitFailedError, CommitTimeoutError, NoBrokerError, OffsetFetchTimeoutError
from kohort.testing.broker import AsyncBroker
from kohort.testing.intercept import Action, watch
from kohort.testing.proxy import AsyncProxy, Direction
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorResponse

pytestmark = pytest.mark.slow

CONFIGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "group.min.session.timeout.ms": 100,
}


class Away(Stage):
    """A broker behind a proxy; ``reader`` makes consumers that see the proxy only."""

    def __init__(self, broker: AsyncBroker, proxy: AsyncProxy) -> None:
        super().__init__(broker)
        self.proxy = proxy

    @asynccontextmanager
    async def reader(self, *topics: str, **more: Unpack[ConsumerOptions]) -> AsyncIterator[AsyncConsumer]:
        more.setdefault("bootstrap_servers", self.proxy.bootstrap)
        more.setdefault("heartbeat_interval_ms", 20)
        async with super().reader(*topics, **more) as consumer:
            yield consumer

    @asynccontextmanager
    async def member(self, **more: Unpack[ConsumerOptions]) -> AsyncIterator[AsyncConsumer]:
        """A member of a group that has read everything there is and committed it."""
        more["group_id"] = "g"
        async with self.reader("t", **more) as consumer:
            await read(consumer, 3)
            await consumer.commit()
            yield consumer


def through_a_proxy(test: Callable[[Away], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Run a test on a loop of its own, with a broker that keeps its data."""

    async def play(data: Path) -> None:
        async with (
            AsyncProxy() as proxy,
            AsyncBroker(data=data, configs=CONFIGS, advertised=proxy.bootstrap) as broker,
        ):
            proxy.upstream = broker.bootstrap
            away = Away(broker, proxy)
            await away.write(b"a", b"b", b"c")
            await asyncio.wait_for(test(away), 90)

    @wraps(test)
    def run(tmp_path: Path) -> None:
        asyncio.run(play(tmp_path))

    del run.__wrapped__  # else pytest takes the test's own parameters for fixtures
    return run


async def goes_on(away: Away, consumer: AsyncConsumer, value: bytes = b"d") -> None:
    """What is written now is read once, and can be committed."""
    await away.write(value)
    records = await read(consumer, 1)
    assert [one.value for one in records] == [value]
    await consumer.commit()
    (found,) = (await consumer.committed(P0)).values()
    assert found is not None
    assert found.offset == records[0].offset + 1


@through_a_proxy
async def test_connections_that_break_again_and_again_cost_nothing(away: Away) -> None:
    async with away.member() as consumer:
        generation = consumer.group_metadata()
        joins = away.broker.intercept(watch, api="JoinGroup")
        for value in (b"d", b"e", b"f"):
            assert away.proxy.cut() > 0
            await goes_on(away, consumer, value)
        assert consumer.group_metadata() == generation
        assert joins.seen == []


@through_a_proxy
async def test_a_coordinator_that_dies_is_waited_for(away: Away) -> None:
    async with away.member() as consumer:
        generation = consumer.group_metadata()
        await away.proxy.refuse()
        for _ in range(5):
            assert await consumer.poll(20) == {}
        await away.proxy.heal()
        await goes_on(away, consumer)
        assert consumer.group_metadata() == generation


@through_a_proxy
async def test_a_broker_that_restarts_still_knows_its_member(away: Away) -> None:
    async with away.member() as consumer:
        generation = consumer.group_metadata()

        async def meanwhile() -> None:
            assert await consumer.poll(20) == {}

        await away.broker.restart(meanwhile)
        await goes_on(away, consumer)
        assert consumer.group_metadata() == generation


def coordinated_at(proxy: AsyncProxy) -> Action:
    host, port = proxy.bootstrap.split(":")

    def change(response: FindCoordinatorResponse) -> None:
        for each in response.coordinators:
            each.node_id, each.host, each.port = 7, host, int(port)

    return spoiled(change)


@through_a_proxy
async def test_a_coordinator_that_moves_is_followed_with_the_same_membership(away: Away) -> None:
    async with AsyncProxy(away.broker.bootstrap) as old, AsyncProxy(away.broker.bootstrap) as new:
        away.broker.intercept(coordinated_at(old), api="FindCoordinator")
        async with away.member() as consumer:
            generation = consumer.group_metadata()
            assert (old.connections, new.connections) == (1, 0)
            away.broker.intercept(coordinated_at(new), api="FindCoordinator")
            await old.refuse()
            await goes_on(away, consumer)
            assert (old.connections, new.connections) == (0, 1)
            assert consumer.group_metadata() == generation


@through_a_proxy
async def test_a_coordinator_that_answers_late_is_given_up_and_asked_again(away: Away) -> None:
    """Each request takes longer than request.timeout.ms until the network recovers."""
    async with away.member(request_timeout_ms=500) as consumer:
        generation = consumer.group_metadata()
        away.proxy.hold(Direction.BACK)
        before = away.proxy.opened
        for _ in range(TURNS):
            assert await consumer.poll(20) == {}
            if away.proxy.opened > before + 1:
                break
        assert away.proxy.opened > before + 1
        away.proxy.release()
        await goes_on(away, consumer)
        assert consumer.group_metadata() == generation


@through_a_proxy
async def test_calls_that_wait_for_a_silent_coordinator_end_in_time_and_name_the_setting(away: Away) -> None:
    async with away.member(request_timeout_ms=500) as consumer:
        away.proxy.drop(Direction.BACK)
        with pytest.raises(CommitTimeoutError, match=r"did not succeed in time.*default\.api\.timeout\.ms"):
            await consumer.commit({P0: 2}, timeout_ms=60)
        with pytest.raises(OffsetFetchTimeoutError, match=r"default\.api\.timeout\.ms") as late:
            await consumer.committed(P0, timeout_ms=60)
        assert late.value.retriable
        await away.proxy.heal()
        await goes_on(away, consumer)


@through_a_proxy
async def test_a_host_that_vanishes_without_a_word_is_noticed(away: Away) -> None:
    """Half-open connections: nothing comes back, not even an error."""
    async with away.member(request_timeout_ms=500, session_timeout_ms=10_000) as consumer:
        away.proxy.half_open()
        opened = away.proxy.opened
        for _ in range(TURNS):
            assert await consumer.poll(20) == {}
            if away.proxy.opened > opened:
                break
        assert away.proxy.opened > opened
        await away.proxy.heal()
        await goes_on(away, consumer)


@through_a_proxy
async def test_a_slow_network_is_slow_and_nothing_else(away: Away) -> None:
    away.proxy.delay_s, away.proxy.bytes_per_s = 0.002, 200_000
    async with away.member() as consumer:
        generation = consumer.group_metadata()
        await goes_on(away, consumer)
        assert consumer.group_metadata() == generation


@through_a_proxy
async def test_a_member_that_was_away_for_too_long_comes_back_as_a_new_one(away: Away) -> None:
    """The session ends at the broker while the client cannot reach it; what it held is lost to others."""
    heard: list[str] = []

    class Diary:
        def on_partitions_assigned(self, partitions: tuple[object, ...]) -> None:
            heard.append(f"assigned {len(partitions)}")

        def on_partitions_revoked(self, partitions: tuple[object, ...]) -> None:
            heard.append(f"revoked {len(partitions)}")

        def on_partitions_lost(self, partitions: tuple[object, ...]) -> None:
            heard.append(f"lost {len(partitions)}")

    async with away.member(session_timeout_ms=1_500) as consumer:
        consumer.subscribe(["t"], listener=Diary())
        before = consumer.group_metadata()
        await away.proxy.refuse()
        await emptied(away)
        with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms.*session\.timeout\.ms"):
            await back_again(away, consumer)
        while "assigned 1" not in heard:
            await consumer.poll(20)
        await goes_on(away, consumer)
        assert consumer.group_metadata().member_id != before.member_id
    assert heard == ["lost 1", "assigned 1", "revoked 1"]


async def back_again(away: Away, consumer: AsyncConsumer) -> None:
    await away.proxy.heal()
    await consumer.commit()


async def emptied(away: Away) -> None:
    """Until the coordinator has dropped the member; asked past the proxy."""
    connection = await open_connection(parse_address(away.broker.bootstrap))
    members = 1
    while members:
        reply = await connection.send(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse)
        members = len(reply.groups[0].members)
    connection.close()


@through_a_proxy
async def test_closing_without_a_coordinator_takes_no_longer_than_it_may(away: Away) -> None:
    async with away.member() as consumer:
        away.proxy.drop()
        await consumer.close(timeout_ms=50)
        assert away.proxy.lost > 0


@through_a_proxy
async def test_starting_where_nobody_listens_names_the_addresses(away: Away) -> None:
    await away.proxy.refuse()
    with pytest.raises(NoBrokerError, match=f"{away.proxy.bootstrap}.*refused"):
        async with away.reader():
            pass
