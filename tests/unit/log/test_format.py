"""The files are Kafka's: the rules its dump tool checks, and directories it has written."""

from dataclasses import replace
from struct import iter_unpack

import pytest
from tests.unit.log.bench import COMPACTED, PARTITION, Bench, batch, found, numbered

from kohort.log.files.checkpoints import CLEAN_SHUTDOWN, LEADER_EPOCHS, PARTITION_METADATA, RECOVERY_POINTS
from kohort.log.files.disk import Disk, read_file
from kohort.log.log import LogConfig
from kohort.model.ids import LeaderEpoch, Offset
from kohort.records.batch import batches, read_records
from kohort.records.compression import Codec
from kohort.testing.faults import FakeDisk

CONFIG: LogConfig = replace(COMPACTED, segment_bytes=2_000, index_interval_bytes=150)
DIRECTORY = f"data/{PARTITION}"


def content_of(disk: Disk, name: str) -> bytes:
    content = read_file(disk, f"{DIRECTORY}/{name}")
    assert content is not None, name
    return content


def check_segment(disk: Disk, base: str) -> int:
    """What the dump tool checks; returns how many index entries there were."""
    first = int(base)
    log = content_of(disk, base + ".log")
    found = dict(batches(log))
    assert sum(header.size for header in found.values()) == len(log)
    youngest = {
        header.last_offset: max((r.timestamp for r in read_records(log, position, header)), default=-1)
        for position, header in found.items()
    }
    entries = list(iter_unpack(">ii", content_of(disk, base + ".index")))
    for relative, position in entries:
        assert found[position].last_offset == first + relative
        assert relative > 0
    times = list(iter_unpack(">qi", content_of(disk, base + ".timeindex")))
    assert [timestamp for timestamp, _ in times] == sorted({timestamp for timestamp, _ in times})
    for timestamp, relative in times:
        assert youngest[first + relative] == timestamp
    if log:
        assert (times[-1][0] if times else -1) == max(youngest.values())
    return len(entries)


def check_all(bench: Bench) -> None:
    bases = [name.removesuffix(".log") for name in bench.names() if name.endswith(".log")]
    assert sum(check_segment(bench.disk, base) for base in bases) > 0


def fill(bench: Bench, count: int = 60) -> None:
    for number in range(count):
        at = 10_000 + (number * 7919) % 1_000
        key = b"key-%d" % (number % 5)
        bench.append(batch(b"value-%d" % number, b"again", at=at, key=key, codec=Codec(number % 5)))


def test_indexes_pass_the_checks_of_the_dump_tool() -> None:
    bench = Bench(FakeDisk(), config=CONFIG)
    fill(bench)
    bench.close()
    check_all(bench)


def test_indexes_pass_the_checks_after_recovery() -> None:
    bench = Bench(FakeDisk(), config=CONFIG)
    fill(bench)
    bench.die()
    bench.open()
    bench.close()
    check_all(bench)


def test_indexes_pass_the_checks_after_compaction() -> None:
    bench = Bench(FakeDisk(), config=CONFIG)
    fill(bench)
    bench.append(numbered(0))
    fill(bench)
    for _ in range(2):
        bench.compact(10**9)
        fill(bench, 20)
    bench.close()
    check_all(bench)


def test_the_first_batch_of_a_segment_has_no_entry_and_later_ones_only_now_and_then() -> None:
    bench = Bench(FakeDisk(), config=LogConfig(index_interval_bytes=150))
    size = len(batch(b"x"))
    bench.append(*[batch(b"x", at=1_000 + number) for number in range(10)])
    bench.close()
    # An entry comes with the first batch after more than 150 bytes: every third here.
    expected = [(number, number * size) for number in (3, 6, 9)]
    assert list(iter_unpack(">ii", content_of(bench.disk, f"{0:020d}.index"))) == expected
    assert list(iter_unpack(">qi", content_of(bench.disk, f"{0:020d}.timeindex"))) == [
        (1_003, 3), (1_006, 6), (1_009, 9),
    ]  # fmt: skip


def test_records_without_timestamps_leave_the_time_index_empty() -> None:
    bench = Bench(FakeDisk(), config=LogConfig(index_interval_bytes=0))
    bench.append(*[batch(b"x", at=-1) for _ in range(5)])
    bench.restart()
    assert content_of(bench.disk, f"{0:020d}.timeindex") == b""
    assert found(bench.log.max_timestamp(Offset(5))) == (0, -1, 1)  # as Kafka answers
    assert found(bench.log.find_by_time(0, Offset(5))) is None


def kafka_directory() -> FakeDisk:
    """A data directory as Kafka leaves it after a clean shutdown: two segments, one epoch."""
    disk = FakeDisk()
    disk.make_directory(DIRECTORY)
    first = batch(b"a", b"b", leader_epoch=4) + batch(b"c", base_offset=2, leader_epoch=4)
    second = batch(b"d", base_offset=3, leader_epoch=5, at=2_000)
    files = {
        f"{0:020d}.log": first,
        f"{0:020d}.index": b"",
        f"{0:020d}.timeindex": bytes.fromhex("00000000000003e9 00000001"),
        f"{3:020d}.log": second,
        f"{3:020d}.index": b"",
        f"{3:020d}.timeindex": bytes.fromhex("00000000000007d0 00000000"),
        f"{3:020d}.snapshot": bytes.fromhex("0001 48674bc7 00000000"),
        f"{4:020d}.snapshot": bytes.fromhex("0001 48674bc7 00000000"),
        LEADER_EPOCHS: b"0\n2\n4 0\n5 3\n",
        PARTITION_METADATA: b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        f"../{RECOVERY_POINTS}": f"0\n1\n{PARTITION.topic} {PARTITION.partition} 4\n".encode(),
        f"../{CLEAN_SHUTDOWN}": b'{"version":0,"brokerEpoch":17}',
        "../replication-offset-checkpoint": b"0\n0\n",
    }
    for name, content in files.items():
        path = f"data/{name[3:]}" if name.startswith("../") else f"{DIRECTORY}/{name}"
        disk.open(path, create=True).write(content, 0)
    return disk


def test_a_directory_of_kafka_is_opened_and_written_on() -> None:
    disk = kafka_directory()
    bench = Bench(disk)
    assert bench.directory.was_closed_cleanly
    assert bench.storage.reports() == []
    assert bench.values() == [b"a", b"b", b"c", b"d"]
    assert bench.log.leader_epoch == 5
    assert bench.log.end_offset_for_epoch(LeaderEpoch(4)) == (4, 3)
    assert found(bench.log.find_by_time(1_500, Offset(4))) == (3, 2_000, 5)
    bench.log.leader_epoch = LeaderEpoch(1)  # what the bench appends with
    bench.append(batch(b"e"))
    bench.close()
    assert (check_segment(disk, f"{0:020d}"), check_segment(disk, f"{3:020d}")) == (0, 0)


@pytest.mark.parametrize("padding", [0, 80])
def test_a_directory_that_kafka_left_in_a_crash_is_recovered(padding: int) -> None:
    disk = kafka_directory()
    disk.remove(f"data/{CLEAN_SHUTDOWN}")
    for kind in (".index", ".timeindex"):
        disk.open(f"{DIRECTORY}/{3:020d}{kind}").write(bytes(padding), 0)
    bench = Bench(disk)
    assert bench.values() == [b"a", b"b", b"c", b"d"]
    assert found(bench.log.max_timestamp(Offset(4))) == (3, 2_000, 5)
