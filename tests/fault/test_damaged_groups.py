"""Any file of ``__consumer_offsets`` is damaged, or one that says where its groups are: no group gets an
offset that it has not committed, groups of other partitions notice nothing, and after a repair every
group has its newest intact commit."""

import asyncio
import logging
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from tests.broker.asking import TOPIC
from tests.broker.grouping import commit_request
from tests.fault.day import CONFIGS, PATIENCE_MS, Day
from tests.fault.log.test_any_damage import WAYS, all_files, content_of, damage, kind_of
from tests.fault.outages import Noise

from kohort.log.files.catalog_state import CATALOG
from kohort.log.files.checkpoints import META_PROPERTIES
from kohort.log.files.repair import repair
from kohort.log.log import Slice, SyncPolicy
from kohort.model.errors import ErrorCode
from kohort.model.ids import Offset
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.primitives.strings import partition_for
from kohort.testing.faults import FakeDisk
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

DATA = "data"
GROUPS = [f"group-{number}" for number in range(6)]
COMMITS = 8
AWAY = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


class GroupDay(Day):
    """A broker whose groups commit into short segments."""

    def __init__(self, disk: FakeDisk | None = None) -> None:
        super().__init__(SyncPolicy.COMMIT)
        if disk is not None:
            self.disk = disk
        self._settings = replace(self._settings, data=Path(DATA))
        self.stored: dict[str, list[bytes]] = {}  # by group: the batch of each commit, offset 0, 1, 2 …

    async def live(self, *, clean: bool) -> None:
        await self.start()
        await self.create("t")
        await self.produce("t", "so that the topic has a directory")
        assert (await self.ask(FindCoordinatorRequest(key=GROUPS[0]), 3)).error_code == 0
        await self._make_segments_short()
        for offset in range(COMMITS):
            self.clock.advance(2 if offset % 2 else 0)
            for group in GROUPS:
                reply = await self.ask(commit_request((0, offset), group=group), 8)
                assert reply.topics[0].partitions[0].error_code == 0
                self.stored.setdefault(group, []).append(self._last_batch(group))
        if clean:
            await self.stop()
        else:
            await self._maintenance.stop()
            self.disk.kill()

    async def _make_segments_short(self) -> None:
        config = AlterableConfig(name="segment.ms", config_operation=0, value="1")
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=CONSUMER_OFFSETS, configs=[config])
        reply = await self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert reply.responses[0].error_code == 0

    def _last_batch(self, group: str) -> bytes:
        log = self.broker.topics.get(CONSUMER_OFFSETS).logs[partition_of(group)]  # type: ignore[union-attr] # made
        last = log.read(Offset(log.end_offset - 1), 1, limit=log.end_offset, at_least_one=True)
        assert isinstance(last, Slice)
        return b"".join(last.buffers)

    async def fetch(self, group: str) -> tuple[ErrorCode, int]:
        """What the group has committed, when its partition has been loaded."""
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        for _ in range(0, PATIENCE_MS, 1_000):
            reply = await self.ask(OffsetFetchRequest(group_id=group, topics=topics), 5)
            code = ErrorCode(reply.error_code)
            if code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
            await self.pass_time(1_000)
        return code, reply.topics[0].partitions[0].committed_offset if not code else -1


def partition_of(group: str) -> int:
    return partition_for(group, int(CONFIGS["offsets.topic.num.partitions"]))


@cache
def made(*, clean: bool) -> tuple[FakeDisk, dict[str, list[bytes]]]:
    day = GroupDay()
    asyncio.run(day.live(clean=clean))
    return day.disk, day.stored


def group_files(disk: FakeDisk) -> list[str]:
    return [path for path in all_files(disk) if path.startswith(f"{DATA}/{CONSUMER_OFFSETS}-")]


def newest_intact(disk: FakeDisk, group: str, stored: list[bytes]) -> int:
    """The newest commit whose batch is in some segment, byte for byte; -1 if there is none."""
    folder = f"{DATA}/{CONSUMER_OFFSETS}-{partition_of(group)}/"
    files = [content_of(disk, path) for path in group_files(disk) if path.startswith(folder)]
    return max((at for at, each in enumerate(stored) if any(each in file for file in files)), default=-1)


def survive(number: int, *, clean: bool) -> None:
    dice = Random(f"{clean} {number}")
    disk, stored = made(clean=clean)
    disk = deepcopy(disk)
    files = [*group_files(disk), f"{DATA}/{CATALOG}", f"{DATA}/{META_PROPERTIES}"]
    kinds = sorted({kind_of(path) for path in files} - {".log"})
    kind = ".log" if number % 2 else kinds[number // 2 // len(WAYS) % len(kinds)]
    paths = [path for path in files if kind_of(path) == kind]
    told = damage(disk, dice.choice(paths), WAYS[number // 2 % len(WAYS)], dice)
    damaged = {part for part in range(2) if f"{CONSUMER_OFFSETS}-{part}/" in told}
    newest = {group: newest_intact(disk, group, stored[group]) for group in GROUPS}
    noise = Noise()
    logging.getLogger("kohort").addHandler(noise)
    try:
        asyncio.run(before_repair(disk, damaged, told))
        repair(disk, DATA)
        found = asyncio.run(after_repair(disk))
    finally:
        logging.getLogger("kohort").removeHandler(noise)
    for group, offset in found.items():  # the checksum does not cover all bytes of a batch
        assert newest[group] <= offset < COMMITS, f"{told}: {group} has {offset}, {newest[group]} is intact"
    traces = [record.getMessage() for record in noise.records if record.exc_info]
    assert not traces, f"{told}: {traces}"


async def before_repair(disk: FakeDisk, damaged: set[int], told: str) -> None:
    """The broker runs, and what it says of groups is true; or it refuses to start with a path."""
    day = GroupDay(disk)
    started = await day.start(attempts=3)
    assert all(DATA in error and "kohort data" in error for error in day.failed_starts), told
    if not started:
        return
    for group in GROUPS:
        code, offset = await day.fetch(group)
        if partition_of(group) in damaged:
            assert code in AWAY or (not code and -1 <= offset < COMMITS), f"{told}: {group}: {code} {offset}"
        else:
            assert (code, offset) == (ErrorCode.NONE, COMMITS - 1), f"{told}: {group}"
    await day.stop()


async def after_repair(disk: FakeDisk) -> dict[str, int]:
    """The commits of all groups, each of which can commit again."""
    day = GroupDay(disk)
    await day.start()
    found = {}
    for group in GROUPS:
        code, found[group] = await day.fetch(group)
        assert code is ErrorCode.NONE
        reply = await day.ask(commit_request((0, COMMITS), group=group), 8)
        assert reply.topics[0].partitions[0].error_code == 0
        assert await day.fetch(group) == (ErrorCode.NONE, COMMITS)
    await day.stop()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_any_damage_of_the_offsets_topic_is_survived_by_its_groups(clean: bool) -> None:
    for number in range(100):
        survive(number, clean=clean)


@pytest.mark.soak
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_five_hundred_damages_of_the_offsets_topic_are_survived_by_its_groups(clean: bool) -> None:
    for number in range(100, 600):
        survive(number, clean=clean)
