"""Opening the data of a broker: a directory, memory, or its part in a cluster."""

from concurrent.futures import Executor
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from kohort.broker.configs import BROKER_CONFIGS
from kohort.broker.settings import Settings
from kohort.cluster.view import ListenerAddress
from kohort.log.catalog import ClusterCatalog, new_cluster_id
from kohort.log.files.catalog_file import Identity
from kohort.log.files.directory import DataDirectory
from kohort.log.files.disk import Disk, RealDisk
from kohort.log.files.log_files import StorageSettings
from kohort.log.files.node import open_memory_node, open_node
from kohort.log.log import Storage
from kohort.model.errors import KohortError
from kohort.model.ids import NodeId

if TYPE_CHECKING:
    from kohort.log.postgres.node import NodeSettings


async def open_data(
    settings: Settings, disk: Disk | None = None, executor: Executor | None = None
) -> tuple[ClusterCatalog, Storage]:
    """The catalog and the logs. A broker without a directory keeps both in memory.

    ``disk`` and ``executor`` are for tests: a disk that fails or forgets, threads that do not start.
    """
    if settings.cluster is not None:
        return await _join_cluster(settings, settings.cluster)
    assert settings.node_id is not None, "a broker without a cluster has a number"
    identity = Identity(new_cluster_id(), NodeId(settings.node_id))
    if settings.data is None and disk is None:
        return await open_memory_node(identity)
    directory = DataDirectory(disk or RealDisk(), str(settings.data or "data"))
    policies = StorageSettings(
        data_policy=settings.fsync,
        internal_policy=settings.fsync_internal,
        sync_interval_ms=settings.fsync_interval_ms,
        scrubs=settings.data is not None,
    )
    return await open_node(directory, identity, policies, executor)


async def _join_cluster(settings: Settings, url: str) -> tuple[ClusterCatalog, Storage]:
    """Register as a node; the listeners must have their ports, because other nodes tell clients of them."""
    try:
        from kohort.log.postgres.node import open_cluster_node
        from kohort.log.postgres.sessions import NodeAddress
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise KohortError(
            "a cluster needs the package asyncpg, which is not installed",
            hint="pip install 'kohort[postgres]'",
        ) from error
    first = settings.endpoints()[0]
    node_id = None if settings.node_id is None else NodeId(settings.node_id)
    address = NodeAddress(
        first.advertised_host,
        first.advertised_port or first.port,
        node_id=node_id,
        listeners=tuple(
            ListenerAddress(each.name, each.advertised_host, each.advertised_port or each.port)
            for each in settings.endpoints()
        ),
        release=_release(),
    )
    return await open_cluster_node(url, address, _node_settings(settings))


def _release() -> str:
    try:
        return version("kohort")
    except PackageNotFoundError:  # it runs from its sources
        return ""


def _node_settings(settings: Settings) -> "NodeSettings":
    from kohort.cluster.lease import LeaseTimes
    from kohort.log.postgres.node import NodeSettings

    def number(name: str) -> int:
        name = f"kohort.cluster.{name}"
        return int(settings.overrides.get(name, BROKER_CONFIGS[name].default))

    return NodeSettings(
        times=LeaseTimes(number("lease.ms"), number("renewal.ms")),
        rebalance_delay_ms=number("rebalance.delay.ms"),
        cache_bytes=number("cache.bytes"),
        read_connections=number("read.connections"),
    )
