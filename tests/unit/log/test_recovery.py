"""Opening files that a crash, another broker or a bad disk left behind."""

import zlib
from struct import pack

import pytest
from tests.unit.log.bench import PARTITION, Bench, append_of, batch, found, numbered

from kohort.log.files.checkpoints import LEADER_EPOCHS, LOG_STARTS
from kohort.log.files.directory import CHECKSUMS
from kohort.log.log import LogConfig
from kohort.model.errors import RefusedError
from kohort.model.ids import LeaderEpoch, Offset
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
    return [repair.what for repair in bench.storage.reports()]


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


def quarantined(disk: FakeDisk) -> list[str]:
    return sorted(entry.name for entry in disk.entries(f"data/quarantine/{PARTITION}"))


def test_damage_in_the_middle_costs_one_batch_and_leaves_a_gap(disk: FakeDisk) -> None:
    bench = filled(disk)
    second = logs(bench)[1]
    damaged = bytearray(content_of(disk, second))
    damaged[-1] ^= 0xFF
    overwrite(disk, second, bytes(damaged))
    told = reopened_after_death(bench)
    assert "the checksum says" in told[0]
    found_offsets = [record.offset for record in bench.records()]
    (lost,) = set(range(12)) - set(found_offsets)
    assert next(record.value for record in bench.records(lost)) == b"%d" % (lost + 1)
    batch_size = len(damaged) // 5
    name = f"{second}.{len(damaged) - batch_size}-{len(damaged)}"
    assert quarantined(disk) == [name, name + ".json"]
    kept = content_of_path(disk, f"data/quarantine/{PARTITION}/{name}")
    assert kept == bytes(damaged[-batch_size:])
    (done,) = bench.append(batch(b"new"))
    assert done.base_offset == 12
    assert reopened_after_death(bench) == []


def test_one_wrong_byte_below_the_recovery_point_costs_its_batch_alone(disk: FakeDisk) -> None:
    """A crash used to read from the segment of the recovery point on, and to remove all behind the byte."""
    bench = filled(disk)
    bench.run(bench.storage.flush())
    bench.run(bench.storage.checkpoint())
    last = logs(bench)[-1]
    damaged = bytearray(content_of(disk, last))
    damaged[70] ^= 0x01
    overwrite(disk, last, bytes(damaged))
    reopened_after_death(bench)
    assert len(bench.records()) == 11
    assert bench.log.end_offset == 12


def test_offsets_that_were_synced_are_not_given_out_again_when_their_records_are_lost(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.run(bench.storage.flush())
    bench.run(bench.storage.checkpoint())
    last = logs(bench)[-1]
    overwrite(disk, last, content_of(disk, last)[:-5])
    told = reopened_after_death(bench)
    assert told[-1] == "the records from offset 11 to 11 are lost; goes on at 12"
    (done,) = bench.append(batch(b"new"))
    assert done.base_offset == 12
    assert [record.offset for record in bench.records()] == [*range(11), 12]


def test_a_cut_closed_segment_is_noticed_after_a_crash_and_after_a_clean_stop(disk: FakeDisk) -> None:
    for clean in (False, True):
        bench = Bench(disk, f"data{clean}", config=SMALL)
        bench.append(*[batch(b"%d" % number, at=1_000 + number) for number in range(12)])
        bench.run(bench.storage.flush())
        bench.run(bench.storage.checkpoint())
        if clean:
            bench.close()
        else:
            bench.die()
        file = disk.open(f"data{clean}/{PARTITION}/{FIRST}.log")
        file.truncate(file.size() - 5)
        bench.open()
        assert any("cut off at the end of the file" in told for told in repairs(bench))
        assert len(bench.records()) == 11
        assert bench.log.end_offset == 12


def test_two_segments_with_each_others_names_are_put_right(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.close()
    first, second = logs(bench)[:2]
    contents = content_of(disk, first), content_of(disk, second)
    overwrite(disk, first, contents[1])
    overwrite(disk, second, contents[0] + b"")
    bench.open()
    if len(contents[0]) == len(contents[1]):  # the sizes alone do not tell
        bench.die()
        bench.open()
    assert [record.offset for record in bench.records()] == list(range(12))


def test_a_batch_with_a_wrong_offset_costs_itself_alone(disk: FakeDisk) -> None:
    for byte in range(8):
        bench = Bench(disk, f"data{byte}", config=LogConfig())
        bench.append(*[batch(b"%d" % number) for number in range(8)])
        size = len(content_of_path(disk, f"data{byte}/{PARTITION}/{FIRST}.log")) // 8
        file = disk.open(f"data{byte}/{PARTITION}/{FIRST}.log")
        position = 3 * size + byte
        file.write(bytes([file.read(1, position)[0] ^ 0x40]), position)
        bench.die()
        bench.open()
        assert [record.offset for record in bench.records()] == [0, 1, 2, 4, 5, 6, 7]


def content_of_path(disk: FakeDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(file.size(), 0)


def test_a_batch_whose_offsets_step_back_is_damage(disk: FakeDisk) -> None:
    bench = Bench(disk)
    bench.append(batch(b"a"), batch(b"b"))
    good = content_of(disk, FIRST + ".log")
    overwrite(disk, FIRST + ".log", good + good)
    told = reopened_after_death(bench)
    assert "comes where 2 was expected" in told[0]
    assert bench.values() == [b"a", b"b"]


def test_batches_in_a_segment_that_ends_before_them_move_to_the_next_one(disk: FakeDisk) -> None:
    bench = Bench(disk)
    bench.append(*[batch(b"%d" % number) for number in range(6)])
    overwrite(disk, "00000000000000000004.log", b"")
    reopened_after_death(bench)
    assert bench.log.end_offset == 6
    bench.append(batch(b"6"))
    assert len(bench.records()) == 7
    assert logs(bench) == [FIRST + ".log", "00000000000000000004.log"]


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
    assert "was closed cleanly, yet" in told[0]
    assert any("cut off at the end of the file" in each for each in told)
    assert told[-1] == "the records from offset 11 to 11 are lost; goes on at 12"
    assert len(bench.records()) == 11


def test_a_clean_log_is_not_read_again(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.close()
    first = logs(bench)[0]
    overwrite(disk, first, bytes(len(content_of(disk, first))))  # would not pass any check
    bench.open()
    assert bench.log.end_offset == 12
    assert repairs(bench) == []


def test_the_middle_of_segments_before_the_recovery_point_is_not_read_again(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.run(bench.storage.flush())
    bench.run(bench.storage.checkpoint())
    first = logs(bench)[0]
    content = bytearray(content_of(disk, first))
    content[70] ^= 0x01  # the scrubber, or `kohort data check`, finds it
    overwrite(disk, first, bytes(content))
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


def test_a_log_without_records_begins_at_its_start(disk: FakeDisk) -> None:
    bench = filled(disk)
    bench.log.drop_before(Offset(12))
    bench.run(bench.storage.checkpoint())
    for name in bench.names():
        if name.endswith(".log"):
            overwrite(disk, name, b"")
    reopened_after_death(bench)
    assert (bench.log.start_offset, bench.log.end_offset) == (12, 12)
    bench.append(batch(b"new"))
    bench.restart()
    assert [record.offset for record in bench.records()] == [12]


@pytest.mark.parametrize("has_checksums", [True, False])
def test_a_wrong_start_offset_hides_nothing(disk: FakeDisk, has_checksums: bool) -> None:
    bench = filled(disk)
    bench.close()
    if not has_checksums:
        disk.remove(f"data/{CHECKSUMS}")
    file = disk.open(f"data/{LOG_STARTS}")
    file.truncate(0)
    file.write(b"0\n1\norders 0 999999\n", 0)
    bench.open()
    assert len(bench.records()) == 12
    assert bench.log.start_offset == 0
    (told,) = repairs(bench)
    assert ("its checksum is wrong" if has_checksums else "before its start 999999") in told


def test_a_log_of_an_old_format_is_refused_and_not_cut(disk: FakeDisk) -> None:
    bench = filled(disk)
    message = pack(">bbi", 0, 0, -1) + pack(">i", 2) + b"hi"
    message = pack(">I", zlib.crc32(message)) + message
    last = logs(bench)[-1]
    old = pack(">qi", 12, len(message)) + message
    content = content_of(disk, last) + old + old
    overwrite(disk, last, content)
    bench.die()
    with pytest.raises(RefusedError, match="let Kafka convert"):
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
