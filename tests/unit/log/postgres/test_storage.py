"""Logs over rows: what is appended is read, found by time, dropped, compacted, and survives its leader."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import pytest
from tests.unit.log.postgres.stage import Stage, on_stage

from kohort.cluster.lease import SessionId
from kohort.cluster.view import PartitionId
from kohort.log.log import Append, Appended, Cleanup, LogConfig, LogSpec, Slice, TimedOffset, Upkeep
from kohort.log.postgres import compaction, maintenance, reading
from kohort.log.postgres.connections import Database, Purpose, Slot
from kohort.log.postgres.maintenance import Maintenance
from kohort.log.postgres.row_log import RowLog
from kohort.log.postgres.storage import NodeOfCluster, RowStorage
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import LeaderEpoch, Offset, Partition, TopicId, TopicName, WallTime
from kohort.model.topics import Topic, TopicPartition
from kohort.records.batch import BatchFields, NewRecord, Record, batches, build_batch, read_records

NAME = TopicName("events")
ZERO = TopicPartition(NAME, Partition(0))
ONE = TopicPartition(NAME, Partition(1))
NUMBERS = {"log.retention.check.interval.ms": 1, "producer.id.expiration.ms": 86_400_000}


def batch(
    *values: bytes | None, key: bytes | None = None, time: int = 1_000, fields: BatchFields | None = None
) -> bytes:
    records = [NewRecord(timestamp=time, key=key, value=value) for value in values]
    return build_batch(records, fields or BatchFields())


class Bench:
    """One node that leads two partitions, on a stage."""

    def __init__(self, stage: Stage, session: SessionId, cache_bytes: int) -> None:
        self.stage = stage
        self.session = session
        self.now = WallTime(10_000)
        self.taken_again: list[PartitionId] = []
        self.has_lost_data = False
        self.advanced: list[TopicPartition] = []
        node = NodeOfCluster(
            session=lambda: self.session,
            is_in_touch=lambda: True,
            take_again=self._take_again,
            cache_bytes=cache_bytes,
        )
        self.storage = RowStorage(stage.database, node)
        self.storage.on_advance(self.advanced.append)
        self.slot = Slot(stage.database, Purpose.MAINTENANCE)
        upkeep = Upkeep(lambda: self.now, lambda _ms: asyncio.sleep(0), lambda name: NUMBERS[name])
        self.maintenance = Maintenance(self.storage, self.slot, lambda: self.session, upkeep)

    async def _take_again(
        self, partitions: Sequence[PartitionId], epochs: Sequence[LeaderEpoch], has_lost_data: bool
    ) -> None:
        self.taken_again += partitions
        self.has_lost_data = has_lost_data
        await self.stage.admin.execute(
            "UPDATE partitions SET leader_epoch = leader_epoch + 1 WHERE partition_id = ANY($1)",
            list(partitions),
        )

    async def open(self, config: LogConfig | None = None) -> RowLog:
        """Open both partitions at the epoch that the tables say; the first one is returned."""
        specs = [
            LogSpec(
                partition=each,
                topic_id=TopicId(self.stage.topic_id.bytes),
                leader_epoch=LeaderEpoch(0),
                config=config or LogConfig(),
            )
            for each in (ZERO, ONE)
        ]
        first, second = await self.storage.open(specs)
        assert isinstance(first, RowLog)
        assert isinstance(second, RowLog)
        self.log = first
        return first

    async def open_again(self, config: LogConfig | None = None) -> RowLog:
        """As a new leader would."""
        await self.storage.release([ZERO, ONE])
        return await self.open(config)

    async def append(self, *contents: bytes, to: TopicPartition = ZERO) -> list[Appended | RefusedError]:
        epoch = self.log.leader_epoch
        return await self.storage.append([Append(to, each, epoch, self.now, True) for each in contents])

    async def read(self, offset: int = 0, max_bytes: int = 1 << 20, *, at_least_one: bool = True) -> Slice:
        log = self.log
        found = log.read(Offset(offset), max_bytes, limit=log.high_watermark, at_least_one=at_least_one)
        return found if isinstance(found, Slice) else await found

    async def records(self, offset: int = 0) -> list[Record]:
        """All records from ``offset`` on, a page after another."""
        found: list[Record] = []
        while (page := await self.read(offset)).size:
            content = b"".join(page.buffers)
            for position, header in batches(content):
                found += read_records(content, position, header)
            offset = page.next_offset
        return [each for each in found if each.offset >= self.log.start_offset]

    async def close(self) -> None:
        await self.storage.close()
        await self.slot.close()


def on_a_bench(
    database: Database, story: Callable[[Bench], Awaitable[None]], *, cache_bytes: int = 1 << 20
) -> None:
    async def main(stage: Stage) -> None:
        session = await stage.add_session()
        await stage.add_partitions(2, session, NAME)
        bench = Bench(stage, session, cache_bytes)
        try:
            await bench.open()
            await story(bench)
        finally:
            await bench.close()

    on_stage(database, main)


def test_many_small_batches_come_in_large_pages(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_FIRST_ROWS", 5)

    async def story(bench: Bench) -> None:
        await bench.append(*[batch(b"%d" % each) for each in range(40)])
        assert (await bench.read(0)).next_offset == 40
        monkeypatch.setattr(reading, "MOST_BYTES", 100)
        assert (await bench.read(0)).next_offset == 1

    on_a_bench(database, story, cache_bytes=0)


def test_a_leader_that_was_replaced_does_not_say_out_of_range(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.stage.admin.execute("UPDATE partitions SET leader_epoch = 1")
        with pytest.raises(RefusedError) as refused:
            await bench.read(5)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_a_bench(database, story)


def test_a_fenced_leader_refuses_all_and_takes_again_at_a_higher_epoch(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.append(batch(b"a"))
        old = bench.log
        await bench.stage.admin.execute(
            "UPDATE partitions SET leader_epoch = 1 WHERE partition_id = $1", old.partition_id
        )
        refused = await bench.append(batch(b"b"), batch(b"c"))
        assert [each.code for each in refused if isinstance(each, RefusedError)] == 2 * [
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        ]
        assert old.failure is not None
        assert bench.advanced[-1] == ZERO, "those who wait look again"
        await bench.storage.take_failed_again()
        assert bench.taken_again == [old.partition_id]
        assert not bench.has_lost_data
        log = await bench.open_again()
        assert log.leader_epoch == 2
        await bench.append(batch(b"d"))
        assert [each.value for each in await bench.records()] == [b"a", b"d"]
        assert log.end_offset_for_epoch(LeaderEpoch(0)).end_offset == 1
        assert log.epoch_at(Offset(1)) == 2

    on_a_bench(database, story)


def test_records_that_the_database_has_forgotten_are_said_when_their_partition_is_taken_again(
    database: Database,
) -> None:
    async def story(bench: Bench) -> None:
        await bench.append(batch(b"a"))
        await bench.append(batch(b"b"), to=ONE)
        await bench.stage.admin.execute("DELETE FROM batches")
        await bench.stage.admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        (refused,) = await bench.append(batch(b"c"))
        assert isinstance(refused, RefusedError)
        await bench.storage.take_failed_again()
        assert sorted(bench.taken_again) == sorted(bench.stage.partitions)
        assert bench.has_lost_data

    on_a_bench(database, story)


def test_partitions_of_another_session_are_not_opened(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.storage.release([ZERO, ONE])
        (refused,) = await bench.append(batch(b"a"))
        assert isinstance(refused, RefusedError)
        assert refused.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        bench.session = await bench.stage.add_session(1)
        spec = LogSpec(
            partition=ZERO,
            topic_id=TopicId(bench.stage.topic_id.bytes),
            leader_epoch=LeaderEpoch(0),
            config=LogConfig(),
        )
        (refused_log,) = await bench.storage.open([spec])
        assert isinstance(refused_log, RefusedError)
        assert refused_log.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_a_bench(database, story)


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_repeated_batch_is_recognised_by_the_next_leader(database: Database, has_snapshot: bool) -> None:
    def numbered(sequence: int) -> bytes:
        return batch(
            b"%d" % sequence, fields=BatchFields(producer_id=7, producer_epoch=0, base_sequence=sequence)
        )

    async def story(bench: Bench) -> None:
        await bench.append(numbered(0), numbered(1))
        if has_snapshot:
            await bench.maintenance.save_all_producers()
        await bench.append(numbered(2))
        await bench.open_again()
        (repeated,) = await bench.append(numbered(2))
        assert isinstance(repeated, Appended)
        assert repeated.duplicate
        assert repeated.base_offset == 2
        (gap,) = await bench.append(numbered(4))
        assert isinstance(gap, RefusedError)
        assert gap.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        (following,) = await bench.append(numbered(3))
        assert isinstance(following, Appended)
        assert not following.duplicate

    on_a_bench(database, story)


def test_records_are_found_by_time_as_a_full_scan_finds_them(database: Database) -> None:
    random = Random(7)

    async def story(bench: Bench) -> None:
        times = [random.randrange(1, 60) for _ in range(80)]
        for first in range(0, 80, 2):
            records = [NewRecord(timestamp=time, key=None, value=b"") for time in times[first : first + 2]]
            await bench.append(build_batch(records, BatchFields()))
        await bench.log.delete_before(Offset(31))  # in the middle of a batch
        for limit in (80, 60):
            known = [(offset, time) for offset, time in enumerate(times[:limit]) if offset >= 31]
            for wanted in range(0, 62):
                expected = next(((offset, time) for offset, time in known if time >= wanted), None)
                found = await bench.log.find_by_time(wanted, Offset(limit))
                assert (found and (found.offset, found.timestamp)) == expected
            youngest = max(known, key=lambda each: each[1])
            assert await bench.log.max_timestamp(Offset(limit)) == TimedOffset(
                Offset(youngest[0]), youngest[1], LeaderEpoch(0)
            )
        await bench.log.delete_before(Offset(80))
        assert await bench.log.find_by_time(0, Offset(80)) is None
        assert await bench.log.max_timestamp(Offset(80)) is None

    on_a_bench(database, story)


def test_deleted_records_are_gone_for_the_next_leader_too(database: Database) -> None:
    async def story(bench: Bench) -> None:
        await bench.append(*[batch(b"%d" % each) for each in range(6)])
        assert await bench.log.delete_before(Offset(4)) == 4
        assert await bench.log.delete_before(Offset(2)) == 4
        with pytest.raises(RefusedError):
            await bench.log.delete_before(Offset(7))
        with pytest.raises(RefusedError):
            await bench.read(3)
        await bench.open_again()
        assert bench.log.start_offset == 4
        assert [each.value for each in await bench.records(4)] == [b"4", b"5"]
        await bench.maintenance.retain()
        assert [row[0] for row in await bench.stage.stored(bench.log.partition_id)] == [4, 5]
        await bench.log.delete_before(Offset(6))
        await bench.maintenance.retain()
        assert await bench.stage.stored(bench.log.partition_id) == []
        (done,) = await bench.append(batch(b"6"))
        assert isinstance(done, Appended)
        assert done.base_offset == 6

    on_a_bench(database, story)


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (LogConfig(retention_ms=5_000), [4, 5, 6, 7, 8, 9]),
        (LogConfig(retention_ms=-1, retention_bytes=3 * len(batch(b"v"))), [7, 8, 9]),
        (LogConfig(retention_ms=-1), list(range(10))),
        (LogConfig(retention_ms=1, cleanup=Cleanup.COMPACT), list(range(10))),
        (LogConfig(retention_ms=0), [9]),
        (LogConfig(retention_bytes=0), []),
    ],
)
def test_retention_drops_what_is_too_old_or_too_much(
    database: Database, monkeypatch: pytest.MonkeyPatch, config: LogConfig, kept: list[int]
) -> None:
    monkeypatch.setattr(maintenance, "DELETE_ROWS", 2)
    monkeypatch.setattr(maintenance, "_PAGE_ROWS", 3)

    async def story(bench: Bench) -> None:
        bench.log.reconfigure(config)
        await bench.append(*[batch(b"v", time=1_000 * each + 1_000) for each in range(10)])
        await bench.maintenance.retain()
        assert [row[0] for row in await bench.stage.stored(bench.log.partition_id)] == kept
        assert bench.log.end_offset == 10

    on_a_bench(database, story)


@pytest.mark.parametrize("range_bytes", [1, 300, 1 << 20])
def test_compaction_keeps_the_newest_record_of_each_key(
    database: Database, monkeypatch: pytest.MonkeyPatch, range_bytes: int
) -> None:
    monkeypatch.setattr(compaction, "RANGE_BYTES", range_bytes)
    random = Random(range_bytes)

    async def story(bench: Bench) -> None:
        bench.log.reconfigure(LogConfig(cleanup=Cleanup.COMPACT))
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        for offset in range(60):
            key, value = b"k%d" % random.randrange(8), random.choice([b"v%d" % offset, None])
            newest[key] = (offset, value)
            await bench.append(batch(value, key=key))
            if offset % 20 == 19:
                await bench.maintenance.compact_log(bench.log)
        await bench.open_again(LogConfig(cleanup=Cleanup.COMPACT))
        found = await bench.records()
        assert {each.key: (each.offset, each.value) for each in found} == newest
        assert [each.offset for each in found] == sorted({each.offset for each in found})
        assert len(found) <= 8 + 1, "all but the newest batch are compacted"
        rows = await bench.stage.stored(bench.log.partition_id)
        assert len(rows) <= len(found)
        assert bench.log.cleaned_to == 59
        for offset in range(60):
            expected = [each.offset for each in found if each.offset >= offset]
            assert [each.offset for each in await bench.records(offset) if each.offset >= offset] == expected
        (done,) = await bench.append(batch(b"after", key=b"k"))
        assert isinstance(done, Appended)
        assert done.base_offset == 60

    on_a_bench(database, story, cache_bytes=0)


def test_a_replaced_leader_compacts_nothing(database: Database) -> None:
    async def story(bench: Bench) -> None:
        bench.log.reconfigure(LogConfig(cleanup=Cleanup.COMPACT))
        await bench.append(*[batch(b"v", key=b"k") for _ in range(5)])
        await bench.stage.admin.execute("UPDATE partitions SET leader_epoch = 1")
        await bench.maintenance.compact_log(bench.log)
        assert len(await bench.stage.stored(bench.log.partition_id)) == 5

    on_a_bench(database, story)


def test_the_rows_of_a_deleted_topic_go_in_pieces(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "DELETE_ROWS", 2)

    async def story(bench: Bench) -> None:
        await bench.append(*[batch(b"v") for _ in range(5)])
        await bench.maintenance.remove_deleted()
        assert len(await bench.stage.stored(bench.log.partition_id)) == 5
        await bench.stage.admin.execute("UPDATE topics SET deleted = true")
        await bench.storage.destroy(Topic(NAME, TopicId(bench.stage.topic_id.bytes), 2))
        (refused,) = await bench.append(batch(b"late"))
        assert isinstance(refused, RefusedError)
        await bench.maintenance.remove_deleted()
        for table in ("batches", "partitions", "producers", "leader_epochs", "topics"):
            assert await bench.stage.admin.fetchval(f"SELECT count(*) FROM {table}") == 0

    on_a_bench(database, story)


def test_the_cache_keeps_to_its_budget_and_the_newest_batch_of_each_partition(database: Database) -> None:
    one = batch(b"x" * 100)

    async def story(bench: Bench) -> None:
        await bench.append(one, to=ONE)
        await bench.append(*[one] * 20)
        log = bench.log
        cached = [
            log.read(Offset(each), 1 << 20, limit=log.high_watermark, at_least_one=True) for each in range(20)
        ]
        in_memory = [isinstance(each, Slice) for each in cached]
        for each in cached:
            if not isinstance(each, Slice):
                assert (await each).next_offset == 20
        assert in_memory == [False] * 17 + [True] * 3

    on_a_bench(database, story, cache_bytes=4 * len(one))
