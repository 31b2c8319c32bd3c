"""Nodes of one cluster, each a whole broker, on a PostgreSQL; clients meet them over the wire."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.broker.asking import batch, create, eventually, metadata, values
from tests.broker.asking import produce as produced
from tests.broker.grouping import alone, find, heartbeat_request
from tests.broker.raw import Raw
from tests.broker.sharing import Nodes, consume, numbers, play, produce
from typer.testing import CliRunner

from kohort.broker.features import GROUP_VERSION
from kohort.broker.server import Server
from kohort.broker.settings import Settings
from kohort.cli.app import command_line
from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import NewTopic
from kohort.client.consumer import AsyncConsumer
from kohort.client.errors import BrokerError
from kohort.log.postgres.catalog import PostgresCluster
from kohort.log.postgres.connections import Purpose
from kohort.model.errors import ErrorCode, KohortError
from kohort.model.ids import TopicName
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL
from kohort.security.acls import Acl, AclResourceType, Operation, PatternType, Permission, Question
from kohort.testing.proxy import AsyncProxy, Direction


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

        def leaders(topic: TopicName) -> list[int | None] | None:
            found = node.broker.catalog.view.topics.get(topic)  # the other node may have just made it
            return None if found is None else [each.leader for each in found.partitions]

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
            proxy.hold(*Direction)
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
        await first.broker.features.set(GROUP_VERSION, 0)
        await nodes.until(lambda: not second.broker.features.has_consumer_groups)
        question = Question("User:ann", "127.0.0.1", Operation.READ, AclResourceType.TOPIC, "t")
        allow = (Operation.READ, Permission.ALLOW)
        rule = Acl(AclResourceType.TOPIC, "t", PatternType.LITERAL, "User:ann", "*", *allow)
        authorizer = second.broker.authorizer
        assert authorizer is not None
        assert not authorizer.may(question)
        await first.broker.catalog.change_acls((), [rule])
        await nodes.until(lambda: authorizer.may(question))

    play(cluster_url, story)


def test_a_replication_factor_up_to_the_number_of_nodes_is_accepted_and_reported_as_1(
    cluster_url: str,
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.start()
        await nodes.start()
        async with AsyncAdmin(bootstrap_servers=nodes.bootstrap) as admin:
            made = await admin.create_topic(NewTopic("two", partitions=1, replication_factor=2))
            assert made.replication_factor == 1
            with pytest.raises(BrokerError, match="this cluster has 2 brokers") as refused:
                await admin.create_topic(NewTopic("three", partitions=1, replication_factor=3))
            assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR

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


def test_heartbeats_metadata_and_fetches_of_fresh_records_never_touch_the_database(
    cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []
    connect = asyncpg.connect

    async def noting(url: str, *, server_settings: dict[str, str], **more: Any) -> Any:  # noqa: ANN401 - as asyncpg's
        connection = await connect(url, server_settings=server_settings, **more)
        connection.add_query_logger(lambda _query: used.append(server_settings["application_name"]))
        return connection

    monkeypatch.setattr(asyncpg, "connect", noting)

    def ask(raw: Raw, member: tuple[str, int]) -> None:
        for _ in range(5):
            assert raw.send(heartbeat_request(*member, group="g"), 4).error_code == 0
            assert find(raw, "g").error_code == 0
            assert metadata(raw, "t").topics[0].error_code == 0
            assert values(raw, "t") == ["a"]

    def begin(raw: Raw) -> tuple[str, int]:
        create(raw, "t")
        eventually(lambda: produced(raw, "t", batch("a")).error_code == 0)  # a node leads it by then
        return alone(raw, group="g")

    async def story(nodes: Nodes) -> None:
        broker = (await nodes.start()).broker
        with await asyncio.to_thread(Raw, nodes.bootstrap) as raw:
            await produce(nodes, b"a")
            await consume(nodes, 1)  # now the shard of the group is loaded
            member = await asyncio.to_thread(begin, raw)
            await broker.coordinator.journal.written()
            await nodes.until(
                lambda: not any(each.is_loading for each in broker.catalog.view.partitions.values())
            )
            assert Purpose.LANE.value in used
            used.clear()
            await asyncio.to_thread(ask, raw, member)
            assert set(used) <= {Purpose.LEASE.value, Purpose.MAINTENANCE.value}

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


def test_the_tables_can_be_made_before_the_first_node_starts(cluster_url: str) -> None:
    app = command_line(["cluster"])
    assert "1 first, 2 operations" in CliRunner().invoke(app, ["cluster", "migrate", cluster_url]).stdout
    assert "up to date" in CliRunner().invoke(app, ["cluster", "migrate", cluster_url]).stdout
