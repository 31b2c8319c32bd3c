"""A cluster of real nodes for tests of failover: three processes on one PostgreSQL from PyPI, no Docker.

::

    with Cluster(nodes=3) as cluster:
        ...                                          # point any client at cluster.bootstrap
        cluster.coordinator("billing").kill()        # kill -9 of the node that coordinates the group
        cluster.leader("orders", 0).pause()          # the node stands still: it lives, and does not answer
        cluster.move_coordinator("billing")          # another node coordinates the group, without a failure
        cluster.move("orders", 0)                    # another node leads the partition

``cluster.postgres.restart(crash=True)`` lets the database fail; with ``Cluster(proxied=True)`` every node has
a network to the database that fails on demand, ``node.database``.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from kohort.client.admin import Admin
from kohort.client.admin.results import NewTopic
from kohort.client.errors import BrokerError
from kohort.client.metadata import NO_NODE
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition
from kohort.testing.postgres import EmbeddedPostgres
from kohort.testing.process import BrokerProcess, BrokerProcessError
from kohort.testing.proxy import Proxy

_PATIENCE_S = 60.0
_LEASE = {"kohort.cluster.lease.ms": 3_000, "kohort.cluster.renewal.ms": 500}


class ClusterNode(BrokerProcess):
    """One node: kill, pause, stop and start it. ``database`` is its way to PostgreSQL, if it is proxied."""

    def __init__(
        self,
        node_id: int,
        url: str,
        configs: Mapping[str, str | int],
        database: Proxy | None,
        clock_ahead_s: int = 0,
    ) -> None:
        options = ("--cluster", url, "--node-id", str(node_id))
        super().__init__(*options, configs=configs, clock_ahead_s=clock_ahead_s)
        self.node_id = node_id
        self.database = database


class Cluster:
    """Nodes that share a PostgreSQL. All of them run when the ``with`` block begins.

    ``configs`` are broker settings of every node. ``clocks_ahead_s`` is how far the wall clocks of the first
    nodes are from that of the machine. ``url`` names a PostgreSQL of your own; otherwise one is started, and
    gone afterwards.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        configs: Mapping[str, str | int] | None = None,
        url: str | None = None,
        proxied: bool = False,
        clocks_ahead_s: Sequence[int] = (),
    ) -> None:
        self._clocks_ahead_s = clocks_ahead_s
        self._count = nodes
        self._configs: dict[str, str | int] = {**_LEASE, **(configs or {})}
        self._url = url
        self._is_proxied = proxied
        self._open = ExitStack()
        self._postgres: EmbeddedPostgres | None = None
        self.nodes: list[ClusterNode] = []

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            if self._url is None:
                self._postgres = opened.enter_context(EmbeddedPostgres())
                self._url = self._postgres.url
            self._open = opened
            for _ in range(self._count):
                self._new_node().begin()
            for node in self.nodes:
                node.wait_until_listening()
            self._open = opened.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for node in self.nodes:
            if node.database is not None:
                node.database.heal()  # a node without its database cannot hand over
            if kind is not None and node.is_running:
                node.kill()  # the failure of the test counts, not what became of the nodes
        self._open.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for the ``bootstrap_servers`` setting of any client."""
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def postgres(self) -> EmbeddedPostgres:
        """The database that was started for this cluster."""
        assert self._postgres is not None, "the cluster uses a PostgreSQL of yours"
        return self._postgres

    def add_node(self) -> ClusterNode:
        """Start one more node and wait until it listens."""
        node = self._new_node()
        node.start()
        return node

    def coordinator(self, group_id: str) -> ClusterNode:
        """The node that coordinates a group."""
        with Admin(self.bootstrap) as admin:
            return self.node(admin.find_coordinator(group_id).node_id)

    def leader(self, topic: str, partition: int = 0) -> ClusterNode:
        """The node that leads a partition; waits while it has none."""
        deadline = time.monotonic() + _PATIENCE_S
        with Admin(self.bootstrap) as admin:
            while True:
                found = admin.describe_topics([topic])[TopicName(topic)]
                if isinstance(found, BrokerError):
                    raise found
                leader = found.partitions[partition].leader
                if leader != NO_NODE:
                    return self.node(leader)
                if time.monotonic() > deadline:
                    raise BrokerProcessError(f"{topic}-{partition} has no leader after {_PATIENCE_S:g} s")
                time.sleep(0.02)

    def move_coordinator(self, group_id: str, to: ClusterNode | None = None) -> ClusterNode:
        """Have another node coordinate a group, ``to`` or any; returns it when it does."""
        receiver = to or self._other_than(self.coordinator(group_id))
        self._move(receiver, [], [group_id])
        return receiver

    def move(self, topic: str, partition: int = 0, to: ClusterNode | None = None) -> ClusterNode:
        """Have another node lead a partition, ``to`` or any; returns it when it does."""
        receiver = to or self._other_than(self.leader(topic, partition))
        self._move(receiver, [TopicPartition(TopicName(topic), Partition(partition))], [])
        return receiver

    def drain(self, node: ClusterNode) -> None:
        """Have a node hand over all that it leads; returns when it leads nothing. Its process goes on."""
        from kohort.log.postgres import operating, overview  # asyncpg is an extra
        from kohort.log.postgres.connections import Database

        assert self._url is not None
        database = Database.parse(self._url)
        asyncio.run(operating.drain(database, node.node_id))
        deadline = time.monotonic() + _PATIENCE_S
        while any(
            each.led for each in asyncio.run(overview.look(database)).nodes if each.node_id == node.node_id
        ):
            if time.monotonic() > deadline:
                raise BrokerProcessError(f"node {node.node_id} still leads after {_PATIENCE_S:g} s")
            time.sleep(0.02)

    def _other_than(self, node: ClusterNode) -> ClusterNode:
        return next(each for each in self.nodes if each is not node and each.answers)

    def _move(self, to: ClusterNode, partitions: list[TopicPartition], groups: list[str]) -> None:
        from kohort.log.postgres import operating  # asyncpg is an extra
        from kohort.log.postgres.connections import Database

        assert self._url is not None
        database = Database.parse(self._url)
        moved = asyncio.run(operating.move(database, to.node_id, partitions, groups))
        deadline = time.monotonic() + _PATIENCE_S
        while not all(each.is_at(to.node_id) for each in asyncio.run(operating.places(database, moved))):
            if time.monotonic() > deadline:
                raise BrokerProcessError(f"node {to.node_id} does not lead {moved} after {_PATIENCE_S:g} s")
            time.sleep(0.02)

    def living(self) -> set[int]:
        """The ids of the nodes that the cluster takes for alive."""
        reachable = [node.bootstrap for node in self.nodes if node.answers]
        with Admin(",".join(reachable)) as admin:
            return {node.node_id for node in admin.describe_cluster().nodes}

    def node(self, node_id: int) -> ClusterNode:
        """The node with this id."""
        return next(node for node in self.nodes if node.node_id == node_id)

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Create a topic; raises the broker's refusal."""
        with Admin(self.bootstrap) as admin:
            admin.create_topic(NewTopic(name, partitions=partitions))

    def _new_node(self) -> ClusterNode:
        assert self._url is not None
        url, database = self._url, None
        if self._is_proxied:
            parts = urlsplit(url)
            user, at, address = parts.netloc.rpartition("@")
            database = self._open.enter_context(Proxy(address))
            url = parts._replace(netloc=user + at + database.bootstrap).geturl()
        number = len(self.nodes)
        ahead_s = self._clocks_ahead_s[number] if number < len(self._clocks_ahead_s) else 0
        node = ClusterNode(number + 1, url, self._configs, database, ahead_s)
        self._open.push(node.__exit__)
        self.nodes.append(node)
        return node
