"""Opening files that a crash, another broker or a bad disk left behind."""

import zlib
from struct import pack

import pytest
from tests.unit.log.bench import PARTITION, Bench, append_of, batch, found, numbered

from kohort.log.checkpoints import LEADER_EPOCHS
from kohort.log.log import LogConfig
from kohort.model.ids import LeaderEpoch, Offset
from kohort.records.batch import LegacyFormatError
from kohort.testing.faults import FakeDisk

FIRST = "00000000000000000000"
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


def path(name: str) -> str:
    return f"data/{PARTITION}/{name}"


def filled(disk: FakeDisk, count: int = 12) -> Bench:
    bench = Bench(disk, config=SMALL)
    bench.append(*[batch(b"%d" % number, at=1_000 + number) for number in range(count)])
    return bench


def overwrite(disk: FakeDisk, name: str, content: bytes) -> None:
    file = disk.open(path(name), create=True)
    file.truncate(0)
    file.write(content, 0)


def content_of(disk: FakeDisk, name: str) -> bytes:
    file = disk.open(path(name))
    return file.read(file.size(), 0)


def logs(bench: Bench) -> list[str]:
    return [name for name in bench.names() if name.endswith(".log")]


def repairs(bench: Bench) -> list[str]:
    return [repair.what for repair in bench.storage.take_repairs()]


def reopened_after_death(bench: Bench) -> list[str]:
    bench.die()
    bench.open()
    return repairs(bench)


def test_a_tail_that_is_no_batch_is_cut_and_told(disk: FakeDisk) -> None:
    bench = filled(disk)
    last = logs(bench)[-1]
    good = content_of(disk, last)
    overwrite(disk, last, good + b"\x01garbage")
    (told,) = reopened_after_death(bench)
    assert told.startswith(f"cut 8 bytes off {last}, which ends with offset 11 now")
    assert content_of(disk, last) == good
    assert len(bench.records()) == 12


def test_damage_in_the_middle_takes_everything_after_it(disk: FakeDisk) -> None:
    bench = filled(disk)
    second = logs(bench)[1]
    damaged = bytearray(content_of(disk, second))
    damaged[-1] ^= 0xFF
    overwrite(disk, second, bytes(damaged))
    told = reopened_after_death(bench)
    assert "the checksum says" in told[0]
    assert any(line.startswith("removed") for line in told)
    assert logs(bench)[-1] == second
    end = bench.log.end_offset
    assert [record.offset for record in bench.records()] == list(range(end))
    (done,) = bench.append(batch(b"new"))
    assert done.base_offset == end


def test_a_batch_whose_offsets_step_back_is_damage(disk: FakeDisk) -> None:
    bench = Bench(disk)
    bench.append(batch(b"a"), batch(b"b"))
    good = content_of(disk, FIRST + ".log")
    overwrite(disk, FIRST + ".log", good + good)
    (told,) = reopened_after_death(bench)
    assert "comes where 2 was expected" in told


def test_a_segment_that_overlaps_the_one_before_goes(disk: FakeDisk) -> None:
    bench = Bench(disk)
    bench.append(*[batch(b"%d" % number) for number in range(6)])
    overwrite(disk, "00000000000000000004.log", b"")
    told = reopened_after_death(bench)
    assert told[0] == "00000000000000000004.log overlaps what comes before it"
    assert bench.log.end_offset == 6
    bench.append(batch(b"6"))
    assert len(bench.records()) == 7


def test_lost_and_damaged_indexes_are_made_again(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.close()
    first, second = (name.removesuffix(".log") for name in logs(bench)[:2])
    good = content_of(disk, first + ".index"), content_of(disk, second + ".timeindex")
    disk.remove(path(first + ".index"))
    overwrite(disk, second + ".timeindex", b"12345")
    bench.open()
    assert len(bench.records()) == 12
    assert found(bench.log.find_by_time(1_007, Offset(12))) == (7, 1_007, 1)
    assert (content_of(disk, first + ".index"), content_of(disk, second + ".timeindex")) == good


def test_an_index_without_a_log_goes(disk: FakeDisk) -> None:
    bench = filled(disk)
    overwrite(disk, "00000000000000000777.index", b"")
    assert reopened_after_death(bench) == ["removed 00000000000000000777.index: it belongs to no segment"]


def test_files_of_others_are_left_alone(disk: FakeDisk) -> None:
    bench = filled(disk)
    overwrite(disk, "notes.txt", b"mine")
    overwrite(disk, FIRST + ".txnindex", b"")
    bench.close()
    bench.open()
    assert repairs(bench) == []
    assert {"notes.txt", FIRST + ".txnindex"} <= set(bench.names())


def test_padding_that_kafka_leaves_in_an_index_does_not_matter(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.close()
    for kind in (".index", ".timeindex"):
        overwrite(disk, FIRST + kind, content_of(disk, FIRST + kind) + bytes(240))
    bench.open()
    assert len(bench.records()) == 12
    assert found(bench.log.find_by_time(1_002, Offset(12))) == (2, 1_002, 1)


def test_a_clean_shutdown_that_was_none_is_noticed(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.close()
    last = logs(bench)[-1]
    overwrite(disk, last, content_of(disk, last)[:-3])
    bench.open()
    told = repairs(bench)
    assert "does not end with a batch" in told[0]
    assert "cut off at the end of the file" in told[1]
    assert bench.log.end_offset == 11


def test_a_clean_log_is_not_read_again(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.close()
    first = logs(bench)[0]
    overwrite(disk, first, bytes(len(content_of(disk, first))))  # would not pass any check
    bench.open()
    assert bench.log.end_offset == 12
    assert repairs(bench) == []


def test_segments_before_the_recovery_point_are_not_read_again(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.run(bench.storage.flush())
    bench.run(bench.storage.checkpoint())
    first = logs(bench)[0]
    size = len(content_of(disk, first))
    overwrite(disk, first, bytes(size))
    assert reopened_after_death(bench) == []
    assert bench.log.end_offset == 12


def test_a_damaged_snapshot_is_replaced_by_the_batches(disk: FakeDisk) -> None:
    bench = Bench(disk, config=SMALL)
    bench.append(*[numbered(number) for number in range(10)])
    bench.close()
    newest = max(name for name in bench.names() if name.endswith(".snapshot"))
    overwrite(disk, newest, b"nonsense")
    bench.open()
    (told,) = repairs(bench)
    assert told.startswith(f"removed {newest}")
    (again,) = bench.append(numbered(9))
    assert again.duplicate


def test_a_snapshot_beyond_the_end_goes(disk: FakeDisk) -> None:
    bench = filled(disk)
    overwrite(disk, "00000000000000000999.snapshot", b"")
    assert reopened_after_death(bench) == [
        "removed 00000000000000000999.snapshot: it is beyond the end of the log"
    ]


def test_each_clean_shutdown_leaves_one_snapshot_beside_those_of_segments(disk: FakeDisk) -> None:
    bench = Bench(disk)
    for number in range(4):
        bench.append(numbered(number))
        bench.restart()
    assert [name for name in bench.names() if name.endswith(".snapshot")] == ["00000000000000000004.snapshot"]


def test_epochs_are_learnt_from_the_batches_when_their_checkpoint_is_lost(disk: FakeDisk) -> None:
    bench = Bench(disk)
    bench.append(batch(b"a"), batch(b"b"))
    bench.try_append([append_of(batch(b"c"), epoch=3)])
    bench.close()
    disk.remove(path(LEADER_EPOCHS))
    bench.open()
    assert bench.log.end_offset_for_epoch(LeaderEpoch(1)) == (1, 2)
    assert bench.log.leader_epoch == 3


def test_epochs_of_batches_that_were_cut_are_forgotten(disk: FakeDisk) -> None:
    bench = Bench(disk)
    bench.append(batch(b"a"))
    bench.try_append([append_of(batch(b"b"), epoch=3)])
    bench.run(bench.storage.flush())
    overwrite(disk, FIRST + ".log", content_of(disk, FIRST + ".log")[:-1])
    reopened_after_death(bench)
    assert bench.log.leader_epoch == 1
    assert bench.log.end_offset_for_epoch(LeaderEpoch(3)) == (-1, -1)


def test_a_log_that_ends_before_its_start_begins_anew_there(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.log.delete_before(Offset(12))
    bench.run(bench.storage.checkpoint())
    for name in bench.names():
        if name.endswith(".log"):
            overwrite(disk, name, b"")
    told = reopened_after_death(bench)
    assert "before its start 12" in " ".join(told)
    assert (bench.log.start_offset, bench.log.end_offset) == (12, 12)
    bench.append(batch(b"new"))
    bench.restart()
    assert [record.offset for record in bench.records()] == [12]


def test_a_log_of_an_old_format_is_refused_and_not_cut(disk: FakeDisk) -> None:
    bench = filled(disk)
    message = pack(">bbi", 0, 0, -1) + pack(">i", 2) + b"hi"
    message = pack(">I", zlib.crc32(message)) + message
    last = logs(bench)[-1]
    old = pack(">qi", 12, len(message)) + message
    content = content_of(disk, last) + old + old
    overwrite(disk, last, content)
    bench.die()
    with pytest.raises(LegacyFormatError, match="let Kafka convert"):
        bench.open()
    assert content_of(disk, last) == content


def test_bytes_that_only_look_like_an_old_format_are_cut(disk: FakeDisk) -> None:
    bench = filled(disk)
    last = logs(bench)[-1]
    overwrite(disk, last, content_of(disk, last) + pack(">qi4xb", 12, 20, 1) + b"x" * 90)
    (told,) = reopened_after_death(bench)
    assert "smaller than a batch header" in told


@pytest.mark.parametrize("length", [90, 49])
def test_a_magic_that_is_none_is_damage(disk: FakeDisk, length: int) -> None:
    bench = filled(disk)
    last = logs(bench)[-1]
    overwrite(disk, last, content_of(disk, last) + pack(">qi4xb", 12, length, 1) + b"x" * 90)
    (told,) = reopened_after_death(bench)
    assert told.startswith("cut")
    assert bench.log.end_offset == 12


def test_batches_larger_than_what_is_read_at_once_are_recovered(disk: FakeDisk) -> None:
    bench = Bench(disk)
    bench.append(batch(b"small"), batch(b"x" * 1_500_000), batch(b"last"))
    assert reopened_after_death(bench) == []
    assert [len(value or b"") for value in bench.values()] == [5, 1_500_000, 4]


def test_a_segment_too_far_from_its_base_is_damage(disk: FakeDisk) -> None:
    bench = Bench(disk)
    bench.append(batch(b"a"))
    far = batch(b"b", base_offset=2**31 + 5)
    overwrite(disk, FIRST + ".log", content_of(disk, FIRST + ".log") + far)
    (told,) = reopened_after_death(bench)
    assert "too far from the start of its segment" in told
