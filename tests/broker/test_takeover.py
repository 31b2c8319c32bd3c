"""A group whose coordinator moves or dies: `kohort groups why` says who took over, why, and what it cost."""

import asyncio

import pytest
from tests.broker.sharing import Nodes, play, produce
from typer.testing import CliRunner

from kohort.broker.server import Server
from kohort.cli.app import command_line
from kohort.client.consumer import AsyncConsumer
from kohort.log.postgres import operating
from kohort.log.postgres.catalog import PostgresCluster
from kohort.log.postgres.connections import Database
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.primitives.strings import partition_for

pytestmark = pytest.mark.slow
QUICK = {"kohort.cluster.lease.ms": "1500", "kohort.cluster.renewal.ms": "200"}


def coordinates(server: Server, group: str) -> bool:
    """Whether a node coordinates a group, and has loaded it."""
    topic = server.broker.topics.get(CONSUMER_OFFSETS)
    if topic is None:
        return False
    placed = topic.placed[partition_for(group, topic.partitions)]
    return placed.leader == server.broker.catalog.session and not placed.is_loading


async def why(server: Server) -> str:
    await server.broker.coordinator.journal.written()
    arguments = ["groups", "why", "g", "-b", str(server.broker.endpoints[0].bound)]
    return (await asyncio.to_thread(CliRunner().invoke, command_line(["groups"]), arguments)).output


async def die(server: Server) -> None:
    """As kill -9, as others see it: the session is not renewed any more."""
    catalog = server.broker.catalog
    assert isinstance(catalog, PostgresCluster)
    await catalog.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_move_and_a_death_of_the_coordinator_are_causes_in_the_story_of_a_group(
    cluster_url: str, protocol: str
) -> None:
    async def story(nodes: Nodes) -> None:
        first = await nodes.start(7, overrides=QUICK)
        second = await nodes.start(8, overrides=QUICK)
        await produce(nodes, b"a")
        async with AsyncConsumer(
            "events", bootstrap_servers=nodes.bootstrap, group_id="g", group_protocol=protocol
        ) as member:
            while not member.assignment():
                await member.poll(100)
            database = Database.parse(cluster_url)
            for node, server in ((7, first), (8, second)):
                await operating.move(database, node, [], ["g"])
                while not coordinates(server, "g"):
                    await member.poll(100)
            text = await why(second)
            assert "the coordinator moved: node 8 took over from node 7: it was moved by hand; no" in text
            await die(second)
            while not coordinates(first, "g"):
                await member.poll(100)
            text = await why(first)
            assert "node 7 took over from node 8: its lease ended; no coordinator for" in text
            assert "loaded with 1 members" in text
            nodes.servers.remove(second)
            await second.stop()

    play(cluster_url, story)


def test_a_static_member_keeps_its_id_though_its_coordinator_dies(cluster_url: str) -> None:
    """Its connection does not outlive the node; its id, its session and its generation do."""

    async def story(nodes: Nodes) -> None:
        first, second = await nodes.start(7, overrides=QUICK), await nodes.start(8, overrides=QUICK)
        await produce(nodes, b"a")
        async with AsyncConsumer(
            "events", bootstrap_servers=nodes.bootstrap, group_id="g", group_instance_id="one"
        ) as member:
            while not member.assignment():
                await member.poll(100)
            await operating.move(Database.parse(cluster_url), 8, [], ["g"])
            while not coordinates(second, "g"):
                await member.poll(100)
            before = member.group_metadata()
            await die(second)
            while not coordinates(first, "g"):
                await member.poll(100)
            await member.commit()
            assert member.group_metadata() == before
            nodes.servers.remove(second)
            await second.stop()

    play(cluster_url, story)
