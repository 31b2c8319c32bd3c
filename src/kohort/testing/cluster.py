"""A cluster of real nodes for tests of failover: three processes on one PostgreSQL from PyPI, no Docker.

::

    with Cluster(nodes=3) as cluster:
        ...                                          # point any client at cluster.bootstrap
        cluster.coordinator("billing").kill()        # kill -9 of the node that coordinates the group
        cluster.leader("orders", 0).pause()          # the node stands still: it lives, and does not answer

``cluster.postgres.restart(crash=True)`` lets the database fail; with ``Cluster(proxied=True)`` every node has
a network to the database that fails on demand, ``node.database``.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from kohort.client.admin import Admin
from kohort.client.admin.results import NewTopic
from kohort.client.errors import BrokerError
from kohort.client.metadata import NO_NODE
from kohort.model.ids import TopicName
from kohort.testing.postgres import EmbeddedPostgres
from kohort.testing.process import BrokerProcess, BrokerProcessError
from kohort.testing.proxy import Proxy

_PATIENCE_S = 60.0
_LEASE = {"kohort.cluster.lease.ms": 3_000, "kohort.cluster.renewal.ms": 500}


class ClusterNode(BrokerProcess):
    """One node: kill, pause, stop and start it. ``database`` is its way to PostgreSQL, if it is proxied."""

    def __init__(
        self, node_id: int, url: str, configs: Mapping[str, str | int], database: Proxy | None
    ) -> None:
        super().__init__("--cluster", url, "--node-id", str(node_id), configs=configs)
        self.node_id = node_id
        self.database = database


class Cluster:
    """Nodes that share a PostgreSQL. All of them run when the ``with`` block begins.

    ``configs`` are broker settings of every node. ``url`` names a PostgreSQL of your own; otherwise one is
    started, and gone afterwards.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        configs: Mapping[str, str | int] | None = None,
        url: str | None = None,
        proxied: bool = False,
    ) -> None:
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

    def living(self) -> set[int]:
        """The ids of the nodes that the cluster takes for alive."""
        reachable = [node.bootstrap for node in self.nodes if node.answers]
        with Admin(",".join(reachable)) as admin:
            return {node.node_id for node in admin.describe_cluster().nodes}

    def node(self, node_id: int) -> ClusterNode:
        return next(node for node in self.nodes if node.node_id == node_id)

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
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
        node = ClusterNode(len(self.nodes) + 1, url, self._configs, database)
        self._open.push(node.__exit__)
        self.nodes.append(node)
        return node
