"""Any file of a data directory is flipped, cut, zeroed, removed, swapped or duplicated: a broker starts, or
refuses with the path and the way out; after a repair it starts, and every intact record is at its offset."""

import asyncio
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.unit.log.bench import append_of, batch, numbered

from kohort.log.files.catalog_file import FileCatalog, Identity
from kohort.log.files.check import check
from kohort.log.files.directory import DataDirectory
from kohort.log.files.log_files import StorageSettings
from kohort.log.files.memory import Immediately
from kohort.log.files.node import open_node
from kohort.log.files.repair import repair
from kohort.log.files.storage import LogStorage
from kohort.log.log import Appended, Cleanup, LogConfig, LogSpec, SyncPolicy
from kohort.model.errors import KohortError
from kohort.model.ids import NodeId, Partition, TopicId, TopicName
from kohort.model.topics import CONSUMER_OFFSETS, Topic, TopicPartition
from kohort.records.batch import batches
from kohort.testing.faults import FakeDisk, PowerLossError

DATA = "data"
IDENTITY = Identity("cluster-of-this-test", NodeId(1))
SETTINGS = StorageSettings(data_policy=SyncPolicy.COMMIT, internal_policy=SyncPolicy.COMMIT)
TOPICS = (
    Topic(TopicName("orders"), TopicId(b"o" * 16), 2),
    Topic(TopicName("pay-ments"), TopicId(b"p" * 16), 1),
    Topic(CONSUMER_OFFSETS, TopicId(b"c" * 16), 2),
)


def config_of(name: str) -> LogConfig:
    cleanup = Cleanup.COMPACT if name == CONSUMER_OFFSETS else Cleanup.DELETE
    return LogConfig(
        segment_bytes=420, index_interval_bytes=100, cleanup=cleanup, internal=name == CONSUMER_OFFSETS
    )


@dataclass
class World:
    """A data directory, and every batch that was acknowledged in it."""

    disk: FakeDisk = field(default_factory=FakeDisk)
    settings: StorageSettings = SETTINGS
    stored: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)  # by base offset
    topics: dict[str, Topic] = field(default_factory=dict)  # as the catalog has acknowledged them

    async def start(self) -> tuple[FileCatalog, LogStorage]:
        directory = DataDirectory(self.disk, DATA)
        catalog, storage = await open_node(directory, IDENTITY, self.settings, Immediately())
        try:
            for topic in catalog.topics.values():
                for number in range(topic.partitions):
                    partition = TopicPartition(topic.name, Partition(number))
                    epoch = catalog.leader_epoch(partition)
                    storage.open_log(
                        LogSpec(
                            partition=partition,
                            topic_id=topic.topic_id,
                            leader_epoch=epoch,
                            config=config_of(topic.name),
                        )
                    )
        except BaseException:
            await storage.close(started=False)
            raise
        return catalog, storage

    async def live(self, *, clean: bool) -> None:
        catalog, storage = await self.start()
        for topic in TOPICS:
            await catalog.create_topic(topic)
            self.topics[topic.name] = topic
        await storage.close()
        catalog, storage = await self.start()
        for number in range(24):
            await self._append(storage, number)
            if number == 15:
                await storage.flush()
                await storage.checkpoint()
        orders = TopicName("orders")
        self.topics[orders] = await catalog.set_topic_configs(orders, {"retention.ms": "1"})
        if clean:
            await storage.close()
        else:
            storage._flusher.close()
            self.disk.kill()

    async def _append(self, storage: LogStorage, number: int) -> None:
        for log in storage.logs():
            size = 1 + number % 3
            values = [b"%d-%d" % (number, each) for each in range(size)]
            content = batch(*values, at=1_000 + number) if number % 2 else numbered(number // 2, producer=9)
            (done,) = await storage.append([append_of(content, log.partition, epoch=log.leader_epoch)])
            if not isinstance(done, Appended):
                assert self.disk.power_off_at is not None, f"{done!r}"
                raise PowerLossError
            piece = log.read(done.base_offset, 1, limit=log.end_offset, at_least_one=True)
            self.stored.setdefault(log.partition, {})[done.base_offset] = b"".join(piece.buffers)

    # -- after damage ----------------------------------------------------------------------------------

    def intact(self) -> dict[TopicPartition, dict[int, bytes]]:
        """What is in some segment of its partition, byte for byte."""
        intact = {}
        for partition, contents in self.stored.items():
            files = [
                content_of(self.disk, f"{DATA}/{partition}/{entry.name}")
                for entry in self.disk.entries(f"{DATA}/{partition}")
                if entry.name.endswith(".log")
            ]
            intact[partition] = {
                offset: each for offset, each in contents.items() if any(each in file for file in files)
            }
        return intact

    async def readable(self, storage: LogStorage) -> dict[TopicPartition, dict[int, bytes]]:
        found: dict[TopicPartition, dict[int, bytes]] = {}
        for log in storage.logs():
            offset, mine = log.start_offset, found.setdefault(log.partition, {})
            while offset < log.end_offset:
                piece = log.read(offset, 10_000, limit=log.end_offset, at_least_one=True)
                content = b"".join(piece.buffers)
                for position, header in batches(content):
                    mine[header.base_offset] = content[position : position + header.size]
                if not piece.size:
                    break
                offset = piece.next_offset
        return found


def content_of(disk: FakeDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(file.size(), 0)


def put(disk: FakeDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(content, 0)


def made(*, clean: bool) -> World:
    world = World()
    asyncio.run(world.live(clean=clean))
    return world


WORLDS = {"stopped": made(clean=True), "killed": made(clean=False)}


def all_files(disk: FakeDisk) -> list[str]:
    paths = []
    for entry in disk.entries(DATA):
        path = f"{DATA}/{entry.name}"
        inner = disk.entries(path) if entry.is_directory else []
        paths += [f"{path}/{each.name}" for each in inner] if entry.is_directory else [path]
    return sorted(path for path in paths if not path.endswith(".lock"))


def kind_of(path: str) -> str:
    name = path.rpartition("/")[2]
    return name[20:] if name[:20].isdecimal() else name


KINDS = sorted({kind_of(path) for world in WORLDS.values() for path in all_files(world.disk)})
WAYS = ("flip", "cut", "zero", "remove", "swap", "duplicate", "grow")


def damage(disk: FakeDisk, path: str, way: str, dice: Random) -> str:
    """Damage one file; says how."""
    content = content_of(disk, path)
    place = dice.randrange(len(content)) if content else 0
    match way:
        case "flip" if content:
            bit = 1 << dice.randrange(8)
            put(disk, path, content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
        case "cut":
            put(disk, path, content[:place])
        case "zero":
            end = dice.randint(place, len(content))
            put(disk, path, content[:place] + bytes(end - place) + content[end:])
        case "remove":
            disk.remove(path)
        case "swap":
            others = [other for other in all_files(disk) if kind_of(other) == kind_of(path)]
            folder = path.rpartition("/")[0]
            if kind_of(path) == ".log":  # records do not say which partition they are of
                others = [other for other in others if other.rpartition("/")[0] == folder]
            other = dice.choice(others)
            put(disk, path, content_of(disk, other))
            put(disk, other, content)
            return f"swap {path} with {other}"
        case "duplicate":
            folder, _, name = path.rpartition("/")
            copy = f"{dice.randrange(60):020d}{name[20:]}" if name[:20].isdecimal() else name + ".copy"
            put(disk, f"{folder}/{copy}", content)
            return f"duplicate {path} as {copy}"
        case _:
            put(disk, path, content + dice.randbytes(dice.randrange(1, 90)))
    return f"{way} {path} at {place} of {len(content)}"


def survive(ending: str, number: int) -> None:
    dice = Random(f"{ending} {number}")
    world = deepcopy(WORLDS[ending])
    kind = KINDS[number % len(KINDS)]
    paths = [path for path in all_files(world.disk) if kind_of(path) == kind]
    if not paths:
        return
    told = damage(world.disk, dice.choice(paths), WAYS[number // len(KINDS) % len(WAYS)], dice)
    intact = world.intact()
    started = asyncio.run(first_start(world, told))
    if started:
        world.disk.kill()
    repair(world.disk, DATA)
    report = check(world.disk, DATA)
    assert not report.is_damaged, f"{told}: {report.findings}"
    found = asyncio.run(last_start(world, told))
    for partition, contents in intact.items():
        for offset, content in contents.items():
            assert found.get(partition, {}).get(offset) == content, f"{told}: {partition} at {offset}"


async def first_start(world: World, told: str) -> bool:
    try:
        _, storage = await world.start()
    except KohortError as error:
        text = str(error)
        assert DATA in text, f"{told}: {text}"
        assert "kohort data repair" in text or "move it" in text, f"{told}: {text}"
        return False
    storage._flusher.close()
    return True


async def last_start(world: World, told: str) -> dict[TopicPartition, dict[int, bytes]]:
    _, storage = await world.start()
    found = await world.readable(storage)
    for log in storage.logs():
        (done,) = await storage.append([append_of(batch(b"new"), log.partition, epoch=log.leader_epoch)])
        assert isinstance(done, Appended), f"{told}: {done!r}"
        assert all(done.base_offset > offset for offset in found[log.partition]), told
    await storage.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("ending", sorted(WORLDS))
def test_any_damage_is_survived(ending: str) -> None:
    for number in range(len(KINDS) * len(WAYS)):  # each way for each kind of file
        survive(ending, number)


@pytest.mark.soak
@pytest.mark.parametrize("ending", sorted(WORLDS))
@pytest.mark.parametrize("part", range(4))
def test_two_thousand_damages_are_survived(ending: str, part: int) -> None:
    for number in range(1_000 + part, 2_000, 4):
        survive(ending, number)
