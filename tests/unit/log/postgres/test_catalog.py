"""Nodes share a catalog: what one changes all see, and partitions are spread and always led."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kohort.cluster.lease import LeaseTimes
from kohort.cluster.view import ClusterSnapshot, PartitionId
from kohort.log.catalog import new_topic_id
from kohort.log.postgres.catalog import PostgresCluster
from kohort.log.postgres.connections import Database, DatabaseError
from kohort.log.postgres.node import NodeSettings, open_cluster_node
from kohort.log.postgres.overview import connected
from kohort.log.postgres.sessions import NodeAddress
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import TopicName
from kohort.model.topics import CONSUMER_OFFSETS, JOURNAL, Topic, TopicPartition
from kohort.security.acls import Acl, AclResourceType, Operation, PatternType, Permission
from kohort.security.scram import ScramCredential, ScramMechanism

NAME = TopicName("events")
ADDRESS = NodeAddress("localhost", 9092)
ACL = Acl(AclResourceType.TOPIC, "t", PatternType.LITERAL, "User:u", "*", Operation.READ, Permission.ALLOW)
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)
USER = ("u", ScramMechanism.SHA_256)


def topic(name: str = NAME, partitions: int = 4, configs: dict[str, str] | None = None) -> Topic:
    return Topic(TopicName(name), new_topic_id(), partitions, configs or {})


class Nodes:
    """The nodes of one cluster, in this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.all: list[PostgresCluster] = []

    async def join(self) -> PostgresCluster:
        node = await PostgresCluster.open(
            self._database, NodeAddress("localhost", 9092 + len(self.all)), LeaseTimes(1_000, 100)
        )
        self.all.append(node)
        await node.register()
        node.placing.rebalance_delay_ms = 200
        return node

    async def kill(self, node: PostgresCluster) -> None:
        """As kill -9: it says nothing any more."""
        await node.close()
        self.all.remove(node)

    async def until(self, node: PostgresCluster, holds: Callable[[ClusterSnapshot], bool]) -> None:
        """Wait until the view of a node is like this."""
        changed = asyncio.Event()
        node.watch(lambda old, new: changed.set())
        while not holds(node.view):
            changed.clear()
            await changed.wait()


def with_nodes(database: Database, story: Callable[[Nodes], Awaitable[None]]) -> None:
    async def main() -> None:
        nodes = Nodes(database)
        try:
            await story(nodes)
        finally:
            for node in nodes.all:
                await node.close()

    asyncio.run(main())


def all_are_led(view: ClusterSnapshot) -> bool:
    return all(view.leader_of(each) is not None for each in view.partitions.values()) and bool(
        view.partitions
    )


def spread(view: ClusterSnapshot) -> list[int]:
    """How many partitions each node leads."""
    counts = dict.fromkeys(view.nodes, 0)
    for each in view.partitions.values():
        if each.leader in counts:
            counts[each.leader] += 1
    return sorted(counts.values())


def test_what_one_node_changes_every_node_sees(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one, other = await nodes.join(), await nodes.join()
        created = topic(configs={"retention.ms": "5"})
        await one.create_topic(created)
        assert one.topics == {NAME: created}
        assert one.topic_by_id(created.topic_id) == created
        await nodes.until(other, lambda view: NAME in view.topics)
        assert other.topics == {NAME: created}
        await other.add_partitions(NAME, 6)
        assert len(other.view.topics[NAME].partitions) == 6
        await nodes.until(one, lambda view: len(view.topics[NAME].partitions) == 6)
        await one.set_topic_configs(NAME, {"a": "b"})
        await one.set_broker_configs("", {"c": "d"})
        await one.set_group_configs("g", {"e": "f"})
        await nodes.until(other, lambda view: bool(view.group_configs))
        assert other.topics[NAME].configs == {"a": "b"}
        assert other.broker_configs == {"": {"c": "d"}}
        assert other.group_configs == {"g": {"e": "f"}}
        await one.set_group_configs("g", {})
        assert one.group_configs == {}
        await other.delete_topic(NAME)
        await nodes.until(one, lambda view: not view.topics)
        assert one.topics == {}
        await one.create_topic(topic())

    with_nodes(database, story)


def test_users_rules_and_the_secret_are_shared(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one, other = await nodes.join(), await nodes.join()
        acls, credentials = other.acls, other.credentials
        await one.change_acls((), [ACL])
        await one.change_credentials((), {USER: CREDENTIAL})
        await one.set_secret(b"first")
        await other.set_secret(b"second")
        assert one.secret == other.secret == b"first"
        assert list(acls) == [ACL], "who holds them sees the change"
        assert dict(credentials) == {USER: CREDENTIAL}
        await other.change_acls([ACL], ())
        await other.change_credentials([USER], {})
        await one.refresh()
        assert (list(one.acls), dict(one.credentials)) == ([], {})

    with_nodes(database, story)


def test_changes_that_cannot_be_are_refused(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one, other = await nodes.join(), await nodes.join()
        await one.create_topic(topic("a.b"))
        refusals = [
            (other.create_topic(topic("a.b")), ErrorCode.TOPIC_ALREADY_EXISTS),
            (other.create_topic(topic("a_b")), ErrorCode.INVALID_TOPIC_EXCEPTION),
            (one.add_partitions(TopicName("a.b"), 4), ErrorCode.INVALID_PARTITIONS),
            (one.delete_topic(NAME), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (one.set_topic_configs(NAME, {}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        for attempt, code in refusals:
            with pytest.raises(RefusedError) as refused:
                await attempt
            assert refused.value.code is code

    with_nodes(database, story)


def test_producer_ids_of_two_nodes_are_never_the_same(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one, other = await nodes.join(), await nodes.join()
        ids = [await node.next_producer_id() for _ in range(600) for node in (one, one, other)]
        assert len(set(ids)) == len(ids)

    with_nodes(database, story)


def test_new_partitions_are_led_at_once_and_spread_over_the_nodes(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one, other, third = [await nodes.join() for _ in range(3)]
        for node in nodes.all:
            await nodes.until(node, lambda view: len(view.nodes) == 3)
        await one.create_topic(topic(partitions=12))
        await nodes.until(third, all_are_led)
        assert sum(spread(third.view)) == 12
        await nodes.until(other, lambda view: spread(view) == [4, 4, 4])

    with_nodes(database, story)


@pytest.mark.slow
def test_partitions_of_a_dead_node_are_led_by_the_others(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one, other = await nodes.join(), await nodes.join()
        await nodes.until(one, lambda view: len(view.nodes) == 2)
        await one.create_topic(topic(partitions=6))
        await nodes.until(other, all_are_led)
        epochs = [each.leader_epoch for each in other.view.topics[NAME].partitions]
        await nodes.kill(one)
        await nodes.until(other, lambda view: len(view.nodes) == 1 and all_are_led(view))
        assert spread(other.view) == [6]
        later = [each.leader_epoch for each in other.view.topics[NAME].partitions]
        assert all(new >= old for new, old in zip(later, epochs, strict=True))

    with_nodes(database, story)


def test_a_node_that_leaves_hands_everything_over(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one, other = await nodes.join(), await nodes.join()
        await nodes.until(one, lambda view: len(view.nodes) == 2)
        await one.create_topic(topic(partitions=6))
        await nodes.until(one, all_are_led)
        led_after: list[bool] = []
        one.watch(
            lambda old, new: led_after.append(
                any(each.leader == one.session for each in new.partitions.values())
            )
        )
        await one.leave()
        assert led_after[-1] is False
        await nodes.until(other, lambda view: len(view.nodes) == 1)
        assert spread(other.view) == [6]

    with_nodes(database, story)


def test_what_could_not_be_handed_over_is_led_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> list[PartitionId]:
        raise TimeoutError

    async def story(nodes: Nodes) -> None:
        one, other = await nodes.join(), await nodes.join()
        for node in nodes.all:
            node.placing.rebalance_delay_ms = 600_000
        await nodes.until(one, lambda view: len(view.nodes) == 2)
        await one.create_topic(topic(partitions=4))
        await nodes.until(one, all_are_led)
        given = [each for each in one.view.partitions.values() if each.leader == one.session]
        assert given
        with monkeypatch.context() as patched:
            patched.setattr(one._session, "hand_over", fail)
            with pytest.raises(TimeoutError):
                await one.placing.hand_over([each.partition_id for each in given], other.session)
            assert not any(each.leader == one.session for each in one.view.partitions.values())
        await nodes.until(one, all_are_led)
        led = [one.view.partitions[each.partition_id] for each in given]
        assert [each.leader for each in led] == [one.session] * len(given)
        assert all(new.leader_epoch > old.leader_epoch for new, old in zip(led, given, strict=True))

    with_nodes(database, story)


@pytest.mark.slow
def test_a_node_that_joins_gets_its_share(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one = await nodes.join()
        await one.create_topic(topic(partitions=6))
        await nodes.until(one, all_are_led)
        one.served(TopicPartition(NAME, index) for index in range(6))  # type: ignore[arg-type]  # NewType of int
        other = await nodes.join()
        for node in (one, other):
            node.watch(lambda old, new, node=node: _serve_all(node))  # type: ignore[misc]  # the default is a node
        await nodes.until(other, lambda view: spread(view) == [3, 3])

    with_nodes(database, story)


def _serve_all(node: PostgresCluster) -> None:
    """What a broker does: open, and say so."""
    for name, placed in node.view.topics.items():
        mine = [
            TopicPartition(name, index)  # type: ignore[arg-type]  # NewType of int
            for index, each in enumerate(placed.partitions)
            if each.leader == node.session and each.is_loading
        ]
        asyncio.get_running_loop().call_soon(node.served, mine)


@pytest.mark.slow
def test_a_database_that_was_restored_is_read_again_and_all_is_led_at_new_epochs(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        node = await nodes.join()
        created, forgotten = topic(), topic("forgotten")
        await node.create_topic(created)
        await node.create_topic(forgotten)
        await nodes.until(node, all_are_led)
        before, epochs = node.session, [each.leader_epoch for each in node.view.topics[NAME].partitions]
        async with node._slot.use() as connection:  # as it was long ago
            await connection.execute(
                "BEGIN; UPDATE cluster SET version = 1; UPDATE sessions SET renewals = 0, version = 1;"
                "DELETE FROM partitions USING topics WHERE topics.topic_id = partitions.topic_id"
                " AND name = 'forgotten'; DELETE FROM topics WHERE name = 'forgotten';"
                "UPDATE topics SET version = 1; UPDATE partitions SET version = 1; COMMIT"
            )
        await nodes.until(node, lambda view: before not in view.nodes and all_are_led(view))
        assert node.topics == {NAME: created}
        assert list(node.view.topics) == [NAME]
        later = [each.leader_epoch for each in node.view.topics[NAME].partitions]
        assert all(new > old for new, old in zip(later, epochs, strict=True))

    with_nodes(database, story)


def test_a_partition_of_the_journal_has_the_leader_of_its_shard(database: Database) -> None:
    async def story(nodes: Nodes) -> None:
        one, other = await nodes.join(), await nodes.join()
        await nodes.until(one, lambda view: len(view.nodes) == 2)
        await one.create_topic(topic(CONSUMER_OFFSETS, 8))
        await other.refresh()
        await other.create_topic(topic(JOURNAL, 8))

        def is_together(view: ClusterSnapshot) -> bool:
            if not all_are_led(view) or JOURNAL not in view.topics:
                return False
            pairs = zip(
                view.topics[CONSUMER_OFFSETS].partitions, view.topics[JOURNAL].partitions, strict=True
            )
            return all(shard.leader == journal.leader for shard, journal in pairs)

        await nodes.until(one, is_together)

    with_nodes(database, story)


def test_a_database_that_cannot_be_reached_says_what_to_do() -> None:
    async def main() -> None:
        with pytest.raises(DatabaseError, match="cannot be reached") as refused:
            await open_cluster_node("postgresql://postgres@127.0.0.1:1/postgres", ADDRESS, NodeSettings())
        assert "takes 7 connections" in str(refused.value.hint)

    asyncio.run(main())


def test_a_node_that_does_not_get_all_its_connections_does_not_start(database: Database) -> None:
    role = f"{database.schema}_node"
    url = f"{database.url.replace('postgres@', f'{role}@')}?schema={database.schema}"
    settings = NodeSettings(read_connections=3)

    async def main() -> None:
        async with connected(database) as admin:
            await admin.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 7")
            await admin.execute(f"GRANT CREATE ON DATABASE postgres TO {role}")
            with pytest.raises(DatabaseError, match="does not take the 8 connections") as refused:
                await open_cluster_node(url, ADDRESS, settings)
            assert "to 8 for each node" in str(refused.value.hint)
            assert not await admin.fetchval("SELECT count(*) FROM sessions"), "no other node sees it"
            await admin.execute(f"ALTER ROLE {role} CONNECTION LIMIT 8")
            used = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}'"
            while await admin.fetchval(used):
                pass  # the server notices late that connections are gone
            _, storage = await open_cluster_node(url, ADDRESS, settings)
            assert await admin.fetchval(used) == 8
            await storage.close()

    asyncio.run(main())
