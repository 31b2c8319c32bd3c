"""The data directory and the catalog agree after a start."""

import asyncio

import pytest

from kohort.log.files.catalog_file import FileCatalog, Identity
from kohort.log.files.checkpoints import PARTITION_METADATA, write_partition_metadata
from kohort.log.files.directory import DataDirectory
from kohort.log.files.memory import Immediately
from kohort.log.files.sweep import StrayDataError, doomed_name, sweep
from kohort.log.log import Repair
from kohort.model.ids import NodeId, Partition, TopicId, TopicName
from kohort.model.topics import Topic, TopicPartition
from kohort.testing.faults import FakeDisk

LIVE, GONE = TopicId(b"l" * 16), TopicId(b"g" * 16)


def partition_directory(disk: FakeDisk, name: str, topic_id: TopicId | None) -> None:
    disk.make_directory(f"data/{name}")
    disk.open(f"data/{name}/00000000000000000000.log", create=True)
    if topic_id is not None:
        metadata = disk.open(f"data/{name}/{PARTITION_METADATA}", create=True)
        metadata.write(write_partition_metadata(topic_id), 0)


def swept(disk: FakeDisk) -> tuple[list[Repair], FileCatalog]:
    async def story() -> tuple[list[Repair], FileCatalog]:
        directory = DataDirectory(disk, "data")
        catalog = await FileCatalog.open(directory, Identity("c", NodeId(1)), Immediately())
        await catalog.create_topic(Topic(TopicName("gone"), GONE, 2))
        await catalog.delete_topic(TopicName("gone"))
        await catalog.create_topic(Topic(TopicName("live"), LIVE, 2))
        return await sweep(directory, catalog), catalog

    return asyncio.run(story())


def directories(disk: FakeDisk) -> set[str]:
    return {entry.name for entry in disk.entries("data") if entry.is_directory}


def test_the_archive_beside_the_log_is_none_of_its_business() -> None:
    disk = FakeDisk()
    disk.make_directory("data/archive")
    disk.open("data/archive/x", create=True)
    repairs, _ = swept(disk)
    assert repairs == []
    assert directories(disk) == {"archive"}


def test_directories_of_deleted_topics_go_and_the_catalog_forgets_them() -> None:
    disk = FakeDisk()
    partition_directory(disk, "live-0", LIVE)
    partition_directory(disk, "gone-0", GONE)
    partition_directory(disk, "gone-1", GONE)
    repairs, catalog = swept(disk)
    assert directories(disk) == {"live-0"}
    assert {repair.directory for repair in repairs} == {"data/gone-0", "data/gone-1"}
    assert dict(catalog.deleted) == {}


def test_a_directory_in_the_middle_of_being_removed_goes() -> None:
    disk = FakeDisk()
    name = doomed_name(TopicPartition(TopicName("live"), Partition(0)), GONE)
    assert name == f"live-0.{GONE.hex()}-delete"
    partition_directory(disk, name, None)
    swept(disk)
    assert directories(disk) == set()


def test_a_directory_nobody_knows_is_told_and_left_alone() -> None:
    disk = FakeDisk()
    for name in ("stranger-0", "live-7", "photos", "live-x", "some.thing-delete"):
        partition_directory(disk, name, None)
    repairs, _ = swept(disk)
    assert directories(disk) == {"stranger-0", "live-7", "photos", "live-x", "some.thing-delete"}
    assert all(repair.what == "is of no topic in the catalog; left as it is" for repair in repairs)
    assert len(repairs) == 5


def test_the_name_of_a_doomed_directory_is_never_too_long() -> None:
    name = doomed_name(TopicPartition(TopicName("t" * 249), Partition(0)), GONE)
    assert len(name) == 255
    assert name.endswith("-delete")


def test_records_of_a_topic_that_the_catalog_does_not_know_are_a_reason_not_to_start() -> None:
    for name in ("stranger-0", "live-7"):
        disk = FakeDisk()
        partition_directory(disk, name, None)
        disk.open(f"data/{name}/00000000000000000000.log").write(b"records", 0)
        with pytest.raises(StrayDataError, match=rf"'data/{name}' hold.*kohort data repair data"):
            swept(disk)
        assert directories(disk) == {name}
