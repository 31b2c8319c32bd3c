"""Opening everything a node stores, on a disk or in memory."""

from concurrent.futures import Executor

from kohort.log.background import Threads
from kohort.log.files.catalog_file import FileCatalog, Identity
from kohort.log.files.directory import DataDirectory
from kohort.log.files.log_files import StorageSettings
from kohort.log.files.memory import Immediately, MemoryDisk
from kohort.log.files.storage import LogStorage
from kohort.log.files.sweep import sweep
from kohort.log.log import SyncPolicy

_IN_MEMORY = StorageSettings(data_policy=SyncPolicy.NEVER, internal_policy=SyncPolicy.NEVER, scrubs=False)


async def open_node(
    directory: DataDirectory,
    identity: Identity,
    settings: StorageSettings,
    executor: Executor | None = None,
) -> tuple[FileCatalog, LogStorage]:
    """The catalog and the storage of a data directory, which agree with each other afterwards.

    Logs are opened by the caller, one ``open_log`` for each partition in the catalog. What had to be repaired
    are ``LogStorage.reports``.
    """
    executor = executor or Threads(settings.sync_threads, "kohort-sync")
    try:
        catalog = await FileCatalog.open(directory, identity, executor)
        repairs = [*catalog.repairs, *await sweep(directory, catalog)]
        return catalog, LogStorage(directory, settings, executor, repairs, catalog.recover)
    except BaseException:
        executor.shutdown(wait=False)
        directory.close(clean=directory.was_closed_cleanly)
        raise


async def open_memory_node(identity: Identity) -> tuple[FileCatalog, LogStorage]:
    """The same without files; nothing outlives it."""
    return await open_node(DataDirectory(MemoryDisk(), "memory"), identity, _IN_MEMORY, Immediately())
