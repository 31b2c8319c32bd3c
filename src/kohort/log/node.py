"""Opening everything a node stores, on a disk or in memory."""

import secrets
from concurrent.futures import Executor

from kohort.log.background import Threads
from kohort.log.catalog_file import FileCatalog, Identity
from kohort.log.directory import DataDirectory
from kohort.log.log import SyncPolicy
from kohort.log.memory import Immediately, MemoryDisk
from kohort.log.storage import LogStorage, StorageSettings
from kohort.log.sweep import sweep
from kohort.model.ids import TopicId
from kohort.model.topics import show_topic_id

_IN_MEMORY = StorageSettings(data_policy=SyncPolicy.NEVER, internal_policy=SyncPolicy.NEVER)


async def open_node(
    directory: DataDirectory,
    identity: Identity,
    settings: StorageSettings,
    executor: Executor | None = None,
) -> tuple[FileCatalog, LogStorage]:
    """The catalog and the storage of a data directory, which agree with each other afterwards.

    Logs are opened by the caller, one ``open_log`` for each partition in the catalog. What had to be repaired
    is told by ``LogStorage.take_repairs``.
    """
    executor = executor or Threads(settings.sync_threads, "kohort-sync")
    try:
        catalog = await FileCatalog.open(directory, identity, executor)
        repairs = [*catalog.repairs, *await sweep(directory, catalog)]
        return catalog, LogStorage(directory, settings, executor, repairs)
    except BaseException:
        executor.shutdown(wait=False)
        directory.close(clean=directory.was_closed_cleanly)
        raise


async def open_memory_node(identity: Identity) -> tuple[FileCatalog, LogStorage]:
    """The same without files; nothing outlives it."""
    return await open_node(DataDirectory(MemoryDisk(), "memory"), identity, _IN_MEMORY, Immediately())


def new_topic_id() -> TopicId:
    """A random (version 4) id; Kafka avoids the ones whose text begins with a dash."""
    while True:
        raw = bytearray(secrets.token_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = TopicId(bytes(raw))
        if not show_topic_id(topic_id).startswith("-"):
            return topic_id


def new_cluster_id() -> str:
    """Random, too, in the text form that ids have in Kafka."""
    return show_topic_id(new_topic_id())
