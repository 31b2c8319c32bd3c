"""Opening the data of a broker: a directory, or memory."""

import secrets
from base64 import urlsafe_b64encode

from kohort.broker.settings import Settings
from kohort.log.catalog import Catalog
from kohort.log.catalog_file import FileCatalog, Identity
from kohort.log.directory import DataDirectory
from kohort.log.disk import Disk, RealDisk
from kohort.log.log import Repair, Storage
from kohort.log.memory import MemoryDisk
from kohort.log.storage import LogStorage, StorageSettings
from kohort.log.sweep import sweep
from kohort.model.ids import NodeId


async def open_data(settings: Settings, disk: Disk | None = None) -> tuple[Catalog, Storage, list[Repair]]:
    """The catalog and the logs, and what had to be put in order after the last run.

    A broker without a directory gets a disk in memory: it is the same in everything else.
    """
    if disk is None:
        disk = RealDisk() if settings.data is not None else MemoryDisk()
    directory = DataDirectory(disk, str(settings.data) if settings.data is not None else "memory")
    catalog = await FileCatalog.open(directory, Identity(_new_cluster_id(), NodeId(settings.node_id)))
    repairs = await sweep(directory, catalog)
    storage = LogStorage(
        directory,
        StorageSettings(
            data_policy=settings.fsync,
            internal_policy=settings.fsync_internal,
            sync_interval_ms=settings.fsync_interval_ms,
        ),
    )
    return catalog, storage, repairs


def _new_cluster_id() -> str:
    """22 characters of base64, as Kafka's are."""
    return urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
