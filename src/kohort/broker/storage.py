"""Opening the data of a broker: a directory, or memory."""

from concurrent.futures import Executor

from kohort.broker.settings import Settings
from kohort.log.catalog import Cluster, new_cluster_id
from kohort.log.files.catalog_file import Identity
from kohort.log.files.directory import DataDirectory
from kohort.log.files.disk import Disk, RealDisk
from kohort.log.files.node import open_memory_node, open_node
from kohort.log.files.storage import StorageSettings
from kohort.log.log import Storage
from kohort.model.ids import NodeId


async def open_data(
    settings: Settings, disk: Disk | None = None, executor: Executor | None = None
) -> tuple[Cluster, Storage]:
    """The catalog and the logs. A broker without a directory keeps both in memory.

    ``disk`` and ``executor`` are for tests: a disk that fails or forgets, threads that do not start.
    """
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
