"""Nodes of one cluster, each a whole broker, on a PostgreSQL; clients meet them over the wire."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner, Result

from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.cli.app import command_line
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import NewTopic
from kohort.client.consumer import AsyncConsumer
from kohort.client.producer import AsyncProducer
from kohort.log.postgres.catalog import PostgresCluster
from kohort.model.errors import KohortError
from kohort.model.ids import TopicName
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL
from kohort.security.acls import Acl, Operation, PatternType, Permission, Question, ResourceType
from kohort.testing.proxy import AsyncProxy, Way

_CONFIGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "4",
    "kohort.cluster.rebalance.delay.ms": "0",
    "authorizer": "acl",
    "super.users": "User:ANONYMOUS",
}


class Nodes:
    """The nodes of a cluster, on the loop of the test."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.servers: list[Server] = []
        self._news = asyncio.Event()

    async def start(self, node_id: int | None = None) -> Server:
        settings = Settings(port=0, cluster=self._url, node_id=node_id, overrides=_CONFIGS)
        server = Server(settings)
        await server.start()
        server.broker.catalog.watch(lambda _old, _new: self._news.set())
        self.servers.append(server)
        return server

    async def stop(self, server: Server) -> None:
        self.servers.remove(server)
        await server.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(str(server.broker.endpoints[0].bound) for server in self.servers)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what nodes do by themselves; nearly all of it changes a view."""
        while not condition():
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self._news.wait()

    async def until_spread(self, topic: TopicName) -> None:
        """Every node leads some partitions of a topic, and all are served."""

        def is_spread() -> bool:
            views = [server.broker.catalog.view.topics.get(topic) for server in self.servers]
            if any(view is None for view in views) or views[0] is None:
                return False
            leaders = {each.leader for each in views[0].partitions}
            return len(leaders) == len(self.servers) and None not in leaders

        await self.until(is_spread)


def play(url: str, story: Callable[[Nodes], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes = Nodes(url)

            async def stop_all() -> None:
                for server in list(nodes.servers):
                    await nodes.stop(server)

            stack.push_async_callback(stop_all)
            await story(nodes)

    asyncio.run(main())


async def produce(nodes: Nodes, *values: bytes) -> None:
    async with AsyncProducer(bootstrap_servers=nodes.bootstrap) as producer:
        for value in values:
            await producer.send("events", value, key=value)


async def consume(nodes: Nodes, count: int) -> set[bytes]:
    """What a member of the group reads until it has so many records; it commits them."""
    found: list[bytes] = []
    async with AsyncConsumer(
        "events",
        bootstrap_servers=nodes.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while len(found) < count:
            for records in (await consumer.poll(1_000)).values():
                found += [record.value or b"" for record in records]
        await consumer.commit()
    assert len(found) == count
    return set(found)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % each for each in range(first, last)]


def test_two_nodes_share_topics_groups_and_offsets_and_one_may_leave(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        first, second = await nodes.start(), await nodes.start()
        assert {first.broker.node_id, second.broker.node_id} == {0, 1}
        await produce(nodes, *numbers(0, 20))
        await nodes.until_spread(TopicName("events"))
        assert await consume(nodes, 20) == set(numbers(0, 20))
        await nodes.stop(first)
        await produce(nodes, *numbers(20, 30))
        assert await consume(nodes, 10) == set(numbers(20, 30)), "offsets were committed before"

    play(cluster_url, story)


def test_the_journal_has_a_partition_for_each_shard_with_the_same_leader(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        node = await nodes.start()
        await nodes.start()
        await produce(nodes, b"a")
        await consume(nodes, 1)
        await nodes.until_spread(CONSUMER_OFFSETS)

        def leaders(topic: TopicName) -> list[int | None]:
            return [each.leader for each in node.broker.catalog.view.topics[topic].partitions]

        await nodes.until(lambda: leaders(JOURNAL) == leaders(CONSUMER_OFFSETS))
        for server in nodes.servers:
            await server.broker.coordinator.journal.written()
        async with AsyncConsumer(bootstrap_servers=nodes.bootstrap) as consumer:
            partitions = [(JOURNAL, index) for index in range(4)]
            ends = await consumer.end_offsets(partitions)
        assert [end > 0 for end in ends.values()].count(True) == 1, "one group has one place"

    play(cluster_url, story)


def test_what_the_last_node_still_has_to_say_is_in_the_journal(
    cluster_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(nodes: Nodes) -> None:
        node = await nodes.start(1)
        await produce(nodes, b"a")
        await consume(nodes, 1)
        await nodes.stop(node)
        assert "journal failed" not in caplog.text
        assert not node.broker.catalog.may_answer()

    play(cluster_url, story)


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_node_without_its_database_stops_cleanly(
    cluster_url: str, caplog: pytest.LogCaptureFixture, is_noticed: bool
) -> None:
    async def main() -> None:
        parts = urlsplit(cluster_url)
        user, _, address = parts.netloc.rpartition("@")
        async with AsyncProxy(address) as proxy:
            nodes = Nodes(parts._replace(netloc=f"{user}@{proxy.bootstrap}").geturl())
            node = await nodes.start()
            await produce(nodes, b"a")
            proxy.hold(*Way)
            if is_noticed:
                await nodes.until(lambda: not node.broker.catalog.may_answer())
            caplog.clear()
            await nodes.stop(node)
        assert caplog.text.count("handing over at the end failed") == 1
        assert "Traceback" not in caplog.text

    asyncio.run(main())


def test_acls_and_configs_that_one_node_changes_hold_on_the_others(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        first, second = await nodes.start(), await nodes.start()
        async with AsyncAdmin(bootstrap_servers=str(first.broker.endpoints[0].bound)) as admin:
            await admin.create_topic(NewTopic("t", partitions=2))
        await nodes.until(lambda: second.broker.topics.get("t") is not None)
        await first.broker.catalog.set_broker_configs("", {"log.retention.ms": "5"})
        await nodes.until(lambda: second.broker.configs.number("log.retention.ms") == 5)
        question = Question("User:ann", "127.0.0.1", Operation.READ, ResourceType.TOPIC, "t")
        allow = (Operation.READ, Permission.ALLOW)
        rule = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ann", "*", *allow)
        authorizer = second.broker.authorizer
        assert authorizer is not None
        assert not authorizer.may(question)
        await first.broker.catalog.change_acls((), [rule])
        await nodes.until(lambda: authorizer.may(question))

    play(cluster_url, story)


def test_a_node_that_was_declared_dead_begins_again_with_its_number(cluster_url: str) -> None:
    async def story(nodes: Nodes) -> None:
        node = await nodes.start()
        await produce(nodes, b"a")
        catalog = node.broker.catalog
        assert isinstance(catalog, PostgresCluster)
        before = catalog.session
        async with catalog._slot.use() as connection:
            await connection.execute("UPDATE sessions SET state = 'dead'")
        await nodes.until(lambda: catalog.session != before and catalog.may_answer())
        assert catalog.node_id == 0
        await produce(nodes, b"b")
        assert await consume(nodes, 2) == {b"a", b"b"}

    play(cluster_url, story)


def test_a_database_that_cannot_be_used_is_said_in_one_line(cluster_url: str) -> None:
    async def start(url: str) -> None:
        await Server(Settings(port=0, cluster=url, node_id=None)).start()

    for url, text in [
        ("mysql://host/db", "mysql:// is not the address of a PostgreSQL"),
        ("postgresql://postgres@127.0.0.1:1/db", "cannot be reached"),
        (cluster_url.replace("/postgres?", "/missing?"), 'database "missing" does not exist'),
    ]:
        with pytest.raises(KohortError) as caught:
            asyncio.run(start(url))
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_drained_node_hands_over_and_the_status_shows_it(cluster_url: str) -> None:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(command_line(["cluster"]), ["cluster", *arguments])

    async def story(nodes: Nodes) -> None:
        first, second = await nodes.start(7), await nodes.start(8)
        await produce(nodes, *numbers(0, 4))
        await nodes.until_spread(TopicName("events"))
        await asyncio.to_thread(run, "drain", "7", cluster_url)

        def leads_nothing() -> bool:
            view = second.broker.catalog.view
            leaders = {each.leader for each in view.partitions.values()}
            return leaders == {second.broker.catalog.session}

        await nodes.until(leads_nothing)
        shown = await asyncio.to_thread(run, "status", cluster_url, "--json")
        found = {each["node_id"]: (each["state"], each["led"]) for each in json.loads(shown.stdout)["nodes"]}
        assert found == {7: ("leaving", 0), 8: ("alive", 4)}
        lines = (await asyncio.to_thread(run, "status", cluster_url)).stdout.splitlines()
        assert max(map(len, lines)) <= 80
        assert any(line.split()[:1] == ["7"] and "leaving" in line for line in lines)
        refused = await asyncio.to_thread(run, "drain", "9", cluster_url)
        assert refused.exit_code == 1
        assert await consume(nodes, 4) == set(numbers(0, 4))
        assert first.broker.node_id == 7

    play(cluster_url, story)


def test_the_tables_can_be_made_before_the_first_node_starts(cluster_url: str) -> None:
    app = command_line(["cluster"])
    assert "1 first" in CliRunner().invoke(app, ["cluster", "migrate", cluster_url]).stdout
    assert "up to date" in CliRunner().invoke(app, ["cluster", "migrate", cluster_url]).stdout
