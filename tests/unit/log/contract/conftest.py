"""The storages that must keep the contract of ``kohort.log.log``: one more backend is one more entry."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.log.contract.subject import Subject

from kohort.log.files.directory import DataDirectory
from kohort.log.files.disk import Disk, RealDisk
from kohort.log.files.memory import Immediately, MemoryDisk
from kohort.log.files.storage import LogStorage, StorageSettings
from kohort.log.log import Storage, SyncPolicy

Open = Callable[[], Awaitable[Storage]]


@asynccontextmanager
async def on_files(tmp_path: Path) -> AsyncIterator[Open]:
    yield _opener(RealDisk(), str(tmp_path / "data"), SyncPolicy.COMMIT)


@asynccontextmanager
async def in_memory(_tmp_path: Path) -> AsyncIterator[Open]:
    yield _opener(MemoryDisk(), "data", SyncPolicy.NEVER)


def _opener(disk: Disk, path: str, policy: SyncPolicy) -> Open:
    async def open_storage() -> Storage:
        settings = StorageSettings(data_policy=policy, internal_policy=policy)
        return LogStorage(DataDirectory(disk, path), settings, Immediately())

    return open_storage


STORAGES = {"memory": in_memory, "files": on_files}

Play = Callable[[Callable[[Subject], Awaitable[None]]], None]


@pytest.fixture(params=STORAGES)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Plays a scene with a log on each storage."""

    def run(scene: Callable[[Subject], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with STORAGES[request.param](tmp_path) as open_storage:
                subject = Subject(open_storage)
                await subject.start()
                await scene(subject)
                await subject.storage.close()

        asyncio.run(whole())

    return run
