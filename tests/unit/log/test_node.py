"""Everything a node stores, opened together."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.log.bench import PARTITION, TOPIC_ID, append_of, batch

from kohort.log.files.catalog_file import CorruptCatalogError, Identity
from kohort.log.files.catalog_state import CATALOG
from kohort.log.files.directory import DataDirectory
from kohort.log.files.disk import RealDisk
from kohort.log.files.log_files import StorageSettings
from kohort.log.files.node import open_memory_node, open_node
from kohort.log.files.storage import LogStorage
from kohort.log.log import Appended, LogConfig, LogSpec, SyncPolicy
from kohort.model.ids import LeaderEpoch, NodeId, Offset
from kohort.model.topics import Topic
from kohort.testing.faults import FakeDisk

IDENTITY = Identity("cluster", NodeId(1))
TOPIC = Topic(PARTITION.topic, TOPIC_ID, 1)


def test_a_node_in_memory_stores_and_reads() -> None:
    async def story() -> None:
        catalog, storage = await open_memory_node(IDENTITY)
        await catalog.create_topic(TOPIC)
        spec = LogSpec(
            partition=PARTITION,
            topic_id=TOPIC_ID,
            leader_epoch=catalog.leader_epoch(PARTITION),
            config=LogConfig(internal=True),
        )
        log = storage.open_log(spec)
        future = storage.append([append_of(batch(b"a"), epoch=0)])
        assert future.done()
        assert log.high_watermark == 1
        await storage.close()

    asyncio.run(story())


async def _append_once(storage: LogStorage, epoch: int, policy: SyncPolicy) -> list[object]:
    spec = LogSpec(
        partition=PARTITION,
        topic_id=TOPIC_ID,
        leader_epoch=LeaderEpoch(epoch),
        config=LogConfig(internal=policy is SyncPolicy.COMMIT),
    )
    storage.open_log(spec)
    return list(await storage.append([append_of(batch(b"x"), epoch=epoch)]))


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(SyncPolicy))
def test_a_node_on_a_real_disk_goes_on_where_it_ended(tmp_path: Path, policy: SyncPolicy) -> None:
    settings = StorageSettings(data_policy=policy, internal_policy=policy, sync_interval_ms=10)

    async def run(start: int) -> None:
        catalog, storage = await open_node(DataDirectory(RealDisk(), str(tmp_path)), IDENTITY, settings)
        if start == 0:
            await catalog.create_topic(TOPIC)
        assert storage.reports() == []
        epoch = catalog.leader_epoch(PARTITION)
        assert epoch == start
        (result,) = await _append_once(storage, epoch, policy)
        assert isinstance(result, Appended)
        assert result.base_offset == start
        assert storage.log(PARTITION).epoch_at(Offset(start)) == start
        await storage.close()

    for start in range(3):
        asyncio.run(run(start))


def test_a_node_that_cannot_be_opened_leaves_the_directory_to_others() -> None:
    disk = FakeDisk()

    async def open_it() -> LogStorage:
        return (await open_node(DataDirectory(disk, "data"), IDENTITY, StorageSettings()))[1]

    async def first() -> None:
        await (await open_it()).close()

    asyncio.run(first())
    disk.open(f"data/{CATALOG}").write(b"?", 5)
    for _ in range(2):
        with pytest.raises(CorruptCatalogError):
            asyncio.run(open_it())


def test_a_crash_between_deleting_a_topic_and_its_files_is_finished_at_the_next_start() -> None:
    disk = FakeDisk()

    async def die_in_between() -> None:
        catalog, storage = await open_node(DataDirectory(disk, "data"), IDENTITY, StorageSettings())
        await catalog.create_topic(TOPIC)
        await _append_once(storage, 0, SyncPolicy.COMMIT)
        await catalog.delete_topic(TOPIC.name)

    async def start_again() -> list[str]:
        _, storage = await open_node(DataDirectory(disk, "data"), IDENTITY, StorageSettings())
        return [repair.what for repair in storage.reports()]

    asyncio.run(die_in_between())
    assert f"data/{PARTITION}" in [f"data/{entry.name}" for entry in disk.entries("data")]
    disk.crash()
    assert asyncio.run(start_again()) == ["removed: its topic is deleted, which a crash interrupted"]
    assert not [entry for entry in disk.entries("data") if entry.is_directory]


def test_a_catalog_that_was_cut_or_lost_after_a_clean_stop_is_refused_at_every_start() -> None:
    async def use() -> None:
        catalog, storage = await open_node(DataDirectory(disk, "data"), IDENTITY, StorageSettings())
        await catalog.create_topic(TOPIC)
        await storage.close()

    async def start() -> None:
        await open_node(DataDirectory(disk, "data"), IDENTITY, StorageSettings())

    for size in (0, 40, -1):
        disk = FakeDisk()
        asyncio.run(use())
        file = disk.open(f"data/{CATALOG}")
        if size == 0:
            disk.remove(f"data/{CATALOG}")
        else:
            file.truncate(
                size if size > 0 else file.size() - len(file.read(file.size(), 0).split(b"\n")[-2]) - 1
            )
        for _ in range(2):
            with pytest.raises(CorruptCatalogError, match="kohort data repair data"):
                asyncio.run(start())
