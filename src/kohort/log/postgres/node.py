"""Opening a node of a cluster: its catalog with its session, and the logs that it leads."""

from dataclasses import dataclass, field

from kohort.cluster.lease import LeaseTimes
from kohort.log.postgres.cache import DEFAULT_BUDGET
from kohort.log.postgres.catalog import PostgresCluster
from kohort.log.postgres.connections import Database
from kohort.log.postgres.placing import REBALANCE_DELAY_MS
from kohort.log.postgres.reading import READ_CONNECTIONS
from kohort.log.postgres.sessions import NodeAddress
from kohort.log.postgres.storage import NodeOfCluster, RowStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node may choose for itself; others need not have the same."""

    times: LeaseTimes = field(default_factory=LeaseTimes)
    rebalance_delay_ms: int = REBALANCE_DELAY_MS
    cache_bytes: int = DEFAULT_BUDGET
    read_connections: int = READ_CONNECTIONS


async def open_cluster_node(
    url: str, address: NodeAddress, settings: NodeSettings
) -> tuple[PostgresCluster, RowStorage]:
    """Register a node. Raises ``KohortError`` that says what to do where the database cannot be used."""
    database = Database.parse(url)
    with database.reached(reads=settings.read_connections):
        cluster = await PostgresCluster.open(database, address, settings.times)
        storage = _storage(database, cluster, settings)
        try:
            await storage.connect()
            await cluster.register()
        except BaseException:
            await storage.close()
            raise
    return cluster, storage


def _storage(database: Database, cluster: PostgresCluster, settings: NodeSettings) -> RowStorage:
    cluster.placing.rebalance_delay_ms = settings.rebalance_delay_ms
    node = NodeOfCluster(
        session=lambda: cluster.session,
        is_in_touch=cluster.is_in_touch,
        take_again=cluster.placing.take_again,
        append_timeout_s=settings.times.window_ms / 1_000,  # then clients are refused: the window is closed
        cache_bytes=settings.cache_bytes,
        read_connections=settings.read_connections,
        close=cluster.close,
    )
    return RowStorage(database, node)
