"""What people do to a cluster by hand: look, move, drain, balance, forget. Each on whole nodes."""

import asyncio
import json

import pytest
from tests.broker.sharing import Nodes, consume, numbers, play, produce
from typer.testing import CliRunner, Result

from kohort.broker.server import Server
from kohort.cli.app import command_line
from kohort.log.postgres.catalog import PostgresCluster
from kohort.log.postgres.connections import Database
from kohort.log.postgres.overview import connected
from kohort.model.ids import TopicName
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL
from kohort.primitives.strings import partition_for

pytestmark = pytest.mark.slow
EVENTS = TopicName("events")


def command(*arguments: str) -> Result:
    return CliRunner().invoke(command_line(["cluster"]), ["cluster", *arguments])


async def run(*arguments: str, code: int = 0) -> str:
    """What a command prints; on standard error, too."""
    done = await asyncio.to_thread(command, *arguments)
    assert done.exit_code == code, done.output
    assert max(map(len, done.output.splitlines()), default=0) <= 80 or "--json" in arguments or code
    return done.output


def leaders(server: Server, topic: TopicName = EVENTS) -> list[int | None]:
    view = server.broker.catalog.view
    nodes = [view.leader_of(each) for each in view.topics[topic].partitions]
    return [None if node is None else node.node_id for node in nodes]


def test_partitions_and_coordinators_move_to_the_node_that_is_named(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        first, second = await nodes.start(7), await nodes.start(8)
        await produce(nodes, *numbers(0, 4))
        assert await consume(nodes, 4) == set(numbers(0, 4))
        await nodes.until_spread(EVENTS)
        moved = json.loads(await run("move", "8", cluster_url, "--topic", "events:0,1", "--json"))
        assert [(each["topic"], each["partition"], each["node_id"]) for each in moved] == [
            ("events", 0, 8),
            ("events", 1, 8),
        ]
        shown = await run("move", "8", cluster_url, "--topic", "events", "--group", "g")
        shard = partition_for("g", 4)
        assert "__consumer_offsets" in shown
        assert leaders(second) == [8, 8, 8, 8]
        assert leaders(second, CONSUMER_OFFSETS)[shard] == 8
        await nodes.until(lambda: leaders(first, JOURNAL)[shard] == 8)  # its journal moves with it
        assert await consume(nodes, 0) == set()
        status = json.loads(await run("status", cluster_url, "--wait", "--json"))
        assert (status["is_led"], status["moving"], status["orphans"]) == (True, 0, 0)
        await run("balance", cluster_url, "--now")
        status = json.loads(
            await run("status", cluster_url, "--wait", "--balanced", "--nodes", "2", "--json")
        )
        assert status["is_balanced"] is True
        assert sorted(map(str, leaders(first))) == ["7", "7", "8", "8"]

    play(cluster_url, story)


def test_a_move_that_cannot_be_made_says_why(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start(7)
        assert "there are no groups yet" in await run("move", "7", cluster_url, "--group", "g", code=1)
        await produce(nodes, b"a")
        for arguments, text in [
            (("9", cluster_url, "--topic", "events"), "there is no node 9 that is alive"),
            (("7", cluster_url, "--topic", "missing"), "there is no topic 'missing'"),
            (("7", cluster_url, "--topic", "events:9"), "there is no partition events-9"),
            (("7", cluster_url, "--topic", JOURNAL), "go where those of __consumer_offsets go"),
        ]:
            assert text in await run("move", *arguments, code=1)
        assert "nothing to move" in await run("move", "7", cluster_url, code=2)
        await run("drain", "7", cluster_url)
        assert "gets nothing" in await run("move", "7", cluster_url, "--topic", "events", code=1)

    play(cluster_url, story)


def test_a_drained_node_hands_over_and_the_status_shows_it(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start(7)
        await nodes.start(8)
        await produce(nodes, *numbers(0, 4))
        await nodes.until_spread(EVENTS)
        await run("drain", "7", cluster_url)
        await run("status", cluster_url, "--wait")
        shown = json.loads(await run("status", cluster_url, "--json"))
        found = {each["node_id"]: (each["state"], each["led"]) for each in shown["nodes"]}
        assert found == {7: ("leaving", 0), 8: ("alive", 4)}
        lines = (await run("status", cluster_url)).splitlines()
        assert any(line.split()[:1] == ["7"] and "leaving" in line for line in lines)
        await run("drain", "9", cluster_url, code=1)
        assert await consume(nodes, 4) == set(numbers(0, 4))

    play(cluster_url, story)


def test_nodes_are_listed_with_their_lease_addresses_and_release_also_the_one_that_left(
    cluster_url: str,
) -> None:
    async def story(nodes: Nodes) -> None:
        first, second = await nodes.start(7), await nodes.start(8)
        await produce(nodes, *numbers(0, 4))
        await nodes.until_spread(EVENTS)
        address = str(second.broker.endpoints[0].bound)
        await nodes.stop(first)
        found = {each["node_id"]: each for each in json.loads(await run("nodes", cluster_url, "--json"))}
        assert (found[7]["state"], found[7]["ended"], found[7]["led"]) == ("dead", "left", 0)
        assert (found[8]["state"], found[8]["led"]) == ("alive", 4)
        assert found[8]["listeners"] == {"PLAINTEXT": address}
        assert found[8]["lease_left_ms"] > 0
        assert found[8]["release"]
        assert "dead (left)" in await run("nodes", cluster_url)

    play(cluster_url, story)


def test_a_node_that_is_gone_can_be_forgotten_and_one_that_lives_cannot(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        living, gone = await nodes.start(7), await nodes.start(8)
        assert "it renews its lease" in await run("forget", "7", cluster_url, code=1)
        for server in (living, gone):  # no node is left that could bury another
            catalog = server.broker.catalog
            assert isinstance(catalog, PostgresCluster)
            await catalog.close()
        await run("forget", "8", cluster_url)
        found = {each["node_id"]: each for each in json.loads(await run("nodes", cluster_url, "--json"))}
        assert (found[8]["state"], found[8]["ended"]) == ("dead", "forgotten")
        assert "there is no node 8 that is alive" in await run("forget", "8", cluster_url, code=1)

    play(cluster_url, story)


def test_waiting_for_a_cluster_ends_with_what_is_missing(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start(7)
        shown = await run("status", cluster_url, "--wait", "--nodes", "2", "--timeout", "0.1", code=1)
        assert "1 of 2 nodes alive" in shown

    play(cluster_url, story)


def test_the_status_says_that_the_database_forgot_what_it_had_confirmed(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        catalog = (await nodes.start()).broker.catalog
        before = catalog.session
        assert "data lost            no" in await run("status", cluster_url)
        async with connected(Database.parse(cluster_url)) as connection:
            await connection.execute("UPDATE sessions SET renewals = -9")
        await nodes.until(lambda: catalog.session != before)
        assert json.loads(await run("status", cluster_url, "--json"))["data_lost_at"] is not None
        assert "data lost            noticed at 20" in await run("status", cluster_url)

    play(cluster_url, story)


def test_the_status_names_the_cluster_and_the_oldest_transaction(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        server = await nodes.start()
        shown = await run("status", cluster_url)
        assert shown.startswith(f"cluster {server.broker.catalog.cluster_id}\n")
        async with connected(Database.parse(cluster_url)) as connection, connection.transaction():
            await connection.execute("SELECT pg_sleep(0.001)")
            found = json.loads(await run("status", cluster_url, "--json"))
        assert found["oldest_transaction_s"] > 0

    play(cluster_url, story)


def test_a_mistyped_schema_is_refused_and_not_made(cluster_url: str) -> None:
    assert command("migrate", cluster_url).exit_code == 0
    mistyped = cluster_url + "x"
    for arguments in (("status",), ("nodes",), ("balance",), ("drain", "1"), ("forget", "1")):
        for _ in range(2):
            refused = command(*arguments, mistyped)
            assert refused.exit_code == 1
            assert "there is no schema" in refused.output
    assert cluster_url.partition("schema=")[2] in refused.output, "the clusters there are"
