"""The storages that must keep the contract of ``kohort.log.log``: one more backend is one more entry."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.log.bench import PARTITION, TOPIC_ID
from tests.unit.log.contract.subject import StoragePlace, Subject

from kohort.cluster.lease import SessionId
from kohort.log.files.directory import DataDirectory
from kohort.log.files.disk import Disk, RealDisk
from kohort.log.files.log_files import StorageSettings
from kohort.log.files.memory import Immediately, MemoryDisk
from kohort.log.files.storage import LogStorage
from kohort.log.log import Storage, SyncPolicy, Upkeep
from kohort.model.ids import WallTime

Backend = Callable[[Path, pytest.FixtureRequest], AbstractAsyncContextManager[StoragePlace]]


@asynccontextmanager
async def on_files(tmp_path: Path, _request: pytest.FixtureRequest) -> AsyncIterator[StoragePlace]:
    yield _place(RealDisk(), str(tmp_path / "data"), SyncPolicy.COMMIT)


@asynccontextmanager
async def in_memory(_tmp_path: Path, _request: pytest.FixtureRequest) -> AsyncIterator[StoragePlace]:
    yield _place(MemoryDisk(), "data", SyncPolicy.NEVER)


def _place(disk: Disk, path: str, policy: SyncPolicy) -> StoragePlace:
    async def open_storage() -> Storage:
        settings = StorageSettings(data_policy=policy, internal_policy=policy)
        return LogStorage(DataDirectory(disk, path), settings, Immediately())

    return StoragePlace(open_storage)


@asynccontextmanager
async def on_postgres(_tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[StoragePlace]:
    """Rows that one session leads; what the catalog does elsewhere is done by hand."""
    from uuid import UUID

    from kohort.log.postgres.connections import Database, Purpose, Slot
    from kohort.log.postgres.maintenance import Maintenance
    from kohort.log.postgres.schema import prepare
    from kohort.log.postgres.storage import NodeOfCluster, RowStorage

    database: Database = request.getfixturevalue("database")
    admin = await database.connect(Purpose.MAINTENANCE)
    await prepare(admin, database)
    topic_id = UUID(bytes=TOPIC_ID)

    async def create() -> None:
        await admin.execute(
            "INSERT INTO topics (topic_id, name, collision_key, partitions, version)"
            " VALUES ($1, $2, $2, 1, 1)",
            topic_id,
            PARTITION.topic,
        )
        await admin.execute(
            "INSERT INTO partitions (topic_id, partition, leader, version) VALUES ($1, 0, 1, 1)", topic_id
        )

    async def open_storage() -> Storage:
        async def take_again(_partitions: object, _epochs: object, _has_lost: bool) -> None:
            """Not before the test opens it."""

        node = NodeOfCluster(session=lambda: SessionId(1), is_in_touch=lambda: True, take_again=take_again)
        return RowStorage(database, node)

    async def lead(epoch: int) -> None:
        await admin.execute("UPDATE partitions SET leader_epoch = $1", epoch)

    async def delete() -> None:
        await admin.execute("UPDATE topics SET deleted = true")
        slot = Slot(database, Purpose.MAINTENANCE)
        upkeep = Upkeep(lambda: WallTime(0), lambda _ms: asyncio.sleep(0), lambda _name: 1)
        storage = await open_storage()
        assert isinstance(storage, RowStorage)
        await Maintenance(storage, slot, lambda: SessionId(1), upkeep).remove_deleted()
        await storage.close()
        await slot.close()
        await create()

    await create()
    try:
        yield StoragePlace(open_storage, lead, delete)
    finally:
        await admin.close()


STORAGES: dict[str, Backend] = {"memory": in_memory, "files": on_files, "postgres": on_postgres}

Play = Callable[[Callable[[Subject], Awaitable[None]]], None]


@pytest.fixture(params=STORAGES)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Plays a scene with a log on each storage."""

    def run(scene: Callable[[Subject], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with STORAGES[request.param](tmp_path, request) as place:
                subject = Subject(place)
                await subject.start()
                await scene(subject)
                await subject.storage.close()

        asyncio.run(whole())

    return run
