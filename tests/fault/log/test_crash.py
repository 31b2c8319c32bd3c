"""The power goes at every moment of a day in the life of a log, or one write or sync fails: nothing that
was acknowledged is lost, and what is left can be opened, read and written."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from errno import EIO, ENOSPC

import pytest
from tests.unit.log.bench import COMPACTED, PARTITION, Bench, append_of

from kohort.log.log import Appended, LogConfig, SyncPolicy
from kohort.model.errors import ErrorCode, RefusedError
from kohort.model.ids import Offset
from kohort.records.batch import NewRecord, build_batch
from kohort.testing.faults import FakeDisk, Fault, PowerLossError, Survival

CONFIG: LogConfig = replace(COMPACTED, segment_bytes=420, index_interval_bytes=120)
KEYS = (b"a", b"b", b"c", b"d")
CLEANING_TIME = 10**9


@dataclass
class Day:
    """What happens to a log, and what it acknowledged while that lasted."""

    bench: Bench
    acknowledged: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)
    start: int = 0

    def live(self) -> None:
        self._append(7)
        self.bench.run(self.bench.storage.flush())
        self._append(6)
        self._delete_before(3)
        self._compact()
        self._append(6)
        self._restart()
        self._append(4)
        self._compact()
        self.bench.close()

    def _append(self, count: int) -> None:
        for _ in range(count):
            number = len(self.acknowledged) + len(self.refused)
            key, value = KEYS[number % len(KEYS)], b"value-%d" % number
            content = build_batch([NewRecord(1_000 + number, key, value)])
            (result,) = self.bench.try_append([append_of(content)])
            if isinstance(result, Appended):
                self.acknowledged[result.base_offset] = (key, value)
            else:
                assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
                self.refused.add(value)

    def _delete_before(self, offset: int) -> None:
        self.start = self.bench.log.drop_before(Offset(min(offset, self.bench.log.high_watermark)))
        with suppress(RefusedError):
            self.bench.run(self.bench.storage.checkpoint())

    def _compact(self) -> None:
        with suppress(RefusedError):
            self.bench.compact(CLEANING_TIME)

    def _restart(self) -> None:
        self.bench.close()
        try:
            self.bench.open()
        except OSError:
            # A node that cannot read or sync its files does not start; the next try finds them well.
            self.bench.directory.close(clean=False)
            self.bench.open()

    def check(self) -> None:
        """Everything acknowledged is there, or is outdated by something that is."""
        found = {record.offset: (record.key, record.value) for record in self.bench.records()}
        assert list(found) == sorted(found)
        newest = {key: offset for offset, (key, _) in sorted(self.acknowledged.items())}
        for offset, record in self.acknowledged.items():
            if offset in found:
                assert found[offset] == record
            elif offset >= self.start:
                assert newest[record[0]] > offset
        (done,) = self.bench.append(build_batch([NewRecord(1, b"e", b"goes on")]))
        assert done.base_offset == max([*found, *self.acknowledged, done.base_offset])
        self.bench.restart()
        assert self.bench.records()[-1].value == b"goes on"
        assert self.bench.storage.reports() == []


def new_day(policy: SyncPolicy = SyncPolicy.COMMIT) -> tuple[FakeDisk, Day]:
    disk = FakeDisk()
    return disk, Day(Bench(disk, config=CONFIG, policy=policy))


def counted() -> tuple[int, int, int]:
    """Operations, writes and syncs of a day without faults."""
    disk, day = new_day()
    operations, writes, syncs = disk.operations, disk.writes, disk.syncs
    day.live()
    return disk.operations - operations, disk.writes - writes, disk.syncs - syncs


OPERATIONS, WRITES, SYNCS = counted()


def test_a_day_without_faults_loses_nothing() -> None:
    _, day = new_day()
    day.live()
    day.bench.open()
    assert day.refused == set()
    assert len(day.acknowledged) == 23
    day.check()


@pytest.mark.slow
@pytest.mark.parametrize("survival", list(Survival))
def test_nothing_acknowledged_is_lost_when_the_power_goes_at_any_moment(survival: Survival) -> None:
    assert OPERATIONS > 200
    for moment in range(1, OPERATIONS + 1):
        disk, day = new_day()
        disk.power_off_at = disk.operations + moment
        with suppress(PowerLossError):  # the last sync of a shutdown is not looked at
            day.live()
        assert disk.operations >= disk.power_off_at
        disk.crash(survival, kept=moment % 90)
        day.bench.open()
        day.check()


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_process_dies_at_any_moment() -> None:
    for policy in SyncPolicy:
        for moment in range(1, OPERATIONS + 1, 8):
            disk, day = new_day(policy)
            disk.power_off_at = disk.operations + moment
            with suppress(PowerLossError):  # without commit there are fewer operations
                day.live()
            disk.kill()
            day.bench.open()
            day.check()


FAILED_WRITES = (Fault(0, EIO), Fault(0, ENOSPC, written=30), Fault(0, 0, written=30))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAILED_WRITES, ids=["error", "full", "short"])
def test_one_failed_write_costs_at_most_the_batch_that_was_refused(fault: Fault) -> None:
    for number in range(1, WRITES + 1):
        disk, day = new_day()
        disk.fail(writes=[fault._replace(number=number)])
        day.live()
        day.bench.open()
        assert len(day.refused) <= 1
        values = {record.value for record in day.bench.records()}
        assert not values & day.refused
        day.check()


@pytest.mark.slow
def test_after_one_failed_sync_the_log_is_refused_until_it_is_reopened_whole() -> None:
    for number in range(1, SYNCS + 1):
        disk, day = new_day()
        disk.fail(syncs=[Fault(number)])
        day.live()
        day.bench.open()
        assert not {record.value for record in day.bench.records()} & _refused_later(day)
        day.check()


def _refused_later(day: Day) -> set[bytes]:
    """All refused batches but the first, which may have been written before its sync failed."""
    return set(sorted(day.refused, key=lambda value: int(value.split(b"-")[1]))[1:])


@pytest.mark.slow
def test_a_log_that_failed_is_whole_again_after_it_is_reopened() -> None:
    for number in _some(SYNCS):
        disk, day = new_day()
        disk.fail(syncs=[Fault(number)])
        try:
            day._append(12)
        finally:
            disk.fail()
        if day.bench.log.failure is not None:
            day.bench.log = day.bench.run(day.bench.storage.reopen(PARTITION))
        assert [(record.key, record.value) for record in day.bench.records()] == list(
            day.acknowledged.values()
        )
        disk.crash()
        day.bench.open()
        day.check()


def _some(count: int) -> Iterator[int]:
    return iter(range(1, min(count, 40) + 1))
