"""Connections kept for each node and purpose."""

import asyncio

import pytest
from tests.unit.client.scripted import HASTY, ScriptedCluster, on_loop

from kohort.client.addresses import Address
from kohort.client.cluster import ConnectionPurpose, Pool
from kohort.client.errors import ClientClosedError, ConnectError
from kohort.client.metadata import Node
from kohort.model.ids import NodeId

NODE = Node(NodeId(1), "host", 9001)


def pool_of(brokers: ScriptedCluster) -> Pool:
    return Pool(HASTY, brokers.dial)


@on_loop
async def test_those_who_ask_at_once_share_one_connection() -> None:
    brokers = ScriptedCluster()
    pool = pool_of(brokers)
    opened = await asyncio.gather(*(pool.to_node(NODE) for _ in range(5)))
    assert len(set(map(id, opened))) == 1
    assert len(brokers.dialled) == 1


@on_loop
async def test_each_purpose_has_its_own_connection() -> None:
    pool = pool_of(ScriptedCluster())
    general = await pool.to_node(NODE)
    assert await pool.to_node(NODE, ConnectionPurpose.COORDINATOR) is not general
    assert await pool.to_node(NODE) is general


@on_loop
async def test_a_broken_connection_is_opened_again() -> None:
    pool = pool_of(ScriptedCluster())
    first = await pool.to_node(NODE)
    first.close()
    second = await pool.to_node(NODE)
    assert second is not first
    assert second.is_open


@on_loop
async def test_a_node_that_moved_is_connected_to_where_it_is_now() -> None:
    brokers = ScriptedCluster(nodes=2)
    pool = pool_of(brokers)
    old = await pool.to_node(NODE)
    new = await pool.to_node(Node(NodeId(1), "host", 9002))
    assert new.address == Address("host", 9002)
    assert not old.is_open


@on_loop
async def test_the_bootstrap_connection_serves_the_node_it_leads_to() -> None:
    brokers = ScriptedCluster()
    pool = pool_of(brokers)
    first = await pool.bootstrap(Address("host", 9001))
    assert await pool.bootstrap(Address("host", 9001)) is first
    assert await pool.to_node(NODE) is first
    assert len(brokers.dialled) == 1


@on_loop
async def test_a_long_poll_never_takes_the_bootstrap_connection() -> None:
    pool = pool_of(ScriptedCluster())
    first = await pool.bootstrap(Address("host", 9001))
    assert await pool.to_node(NODE, ConnectionPurpose.FETCH) is not first


@on_loop
async def test_those_who_bootstrap_at_once_share_one_connection() -> None:
    brokers = ScriptedCluster()
    pool = pool_of(brokers)
    opened = await asyncio.gather(*(pool.bootstrap(Address("host", 9001)) for _ in range(3)))
    assert len(set(map(id, opened))) == 1
    assert len(brokers.dialled) == 1


@on_loop
async def test_only_one_bootstrap_connection_is_kept() -> None:
    pool = pool_of(ScriptedCluster(nodes=2))
    first = await pool.bootstrap(Address("host", 9001))
    await pool.bootstrap(Address("host", 9002))
    assert not first.is_open


@on_loop
async def test_an_advertised_address_that_leads_nowhere_is_explained() -> None:
    brokers = ScriptedCluster()
    brokers.down.add(1)
    with pytest.raises(ConnectError, match=r"broker 1 says it is at host:9001: .*refused") as caught:
        await pool_of(brokers).to_node(NODE)
    assert "--advertise" in caught.value.hint


@on_loop
async def test_closing_the_pool_closes_every_connection() -> None:
    pool = pool_of(ScriptedCluster(nodes=2))
    opened = [await pool.to_node(NODE), await pool.bootstrap(Address("host", 9002))]
    pool.close()
    assert not any(connection.is_open for connection in opened)
    assert pool.live() is None


@on_loop
async def test_nothing_stays_open_that_was_being_opened_when_the_pool_was_closed() -> None:
    brokers = ScriptedCluster()
    pool = pool_of(brokers)
    opening = [
        asyncio.create_task(pool.to_node(NODE)),
        asyncio.create_task(pool.to_node(NODE)),  # waits for the first
        asyncio.create_task(pool.bootstrap(NODE.address)),
    ]
    await asyncio.sleep(0)
    pool.close()
    for end in await asyncio.gather(*opening, return_exceptions=True):
        assert isinstance(end, ClientClosedError)
    assert not brokers.open
    pool.reopen()
    assert (await pool.to_node(NODE)).is_open
