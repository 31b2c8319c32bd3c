"""The disk that fails and forgets does so as it says."""

from errno import EIO, ENOSPC

import pytest

from kohort.log.files.disk import DirectoryInUseError, read_file
from kohort.testing.faults import FakeDisk, FakeFile, Fault, PowerLossError, Survival


@pytest.fixture
def disk() -> FakeDisk:
    disk = FakeDisk()
    disk.make_directory("d")
    disk.sync_directory("/")
    return disk


def named(disk: FakeDisk, name: str = "d/f") -> FakeFile:
    """A file whose name is safe."""
    file = disk.open(name, create=True)
    disk.sync_directory("d")
    return file


def test_bytes_survive_a_crash_only_when_they_were_synced(disk: FakeDisk) -> None:
    file = named(disk)
    file.write(b"safe", 0)
    file.sync()
    file.write(b" lost", 4)
    file.write(b"S", 0)
    disk.crash()
    assert read_file(disk, "d/f") == b"safe"


def test_names_survive_a_crash_only_when_their_directory_was_synced(disk: FakeDisk) -> None:
    named(disk)
    disk.rename("d/f", "d/g")
    lost = disk.open("d/lost", create=True)
    lost.write(b"x", 0)
    lost.sync()
    disk.make_directory("also/lost")
    disk.crash()
    assert [entry.name for entry in disk.entries("d")] == ["f"]
    assert disk.entries("also") == []


def test_an_unsynced_removal_and_an_unsynced_cut_are_undone(disk: FakeDisk) -> None:
    file = named(disk)
    file.write(b"content", 0)
    file.sync()
    file.truncate(2)
    disk.remove("d/f")
    disk.crash()
    assert read_file(disk, "d/f") == b"content"


@pytest.mark.parametrize(
    ("survival", "expected"),
    [(Survival.NOTHING, b"safe"), (Survival.PREFIX, b"safeto"), (Survival.ZEROS, b"safe\0\0\0\0")],
)
def test_a_crash_may_leave_a_part_of_what_was_appended(
    disk: FakeDisk, survival: Survival, expected: bytes
) -> None:
    file = named(disk)
    file.write(b"safe", 0)
    file.sync()
    file.write(b"torn", 4)
    disk.crash(survival, kept=2)
    assert read_file(disk, "d/f") == expected


def test_the_death_of_the_process_loses_nothing(disk: FakeDisk) -> None:
    disk.lock("d/.lock")
    disk.open("d/f", create=True).write(b"x", 0)
    disk.kill()
    assert read_file(disk, "d/f") == b"x"
    disk.lock("d/.lock")
    with pytest.raises(DirectoryInUseError):
        disk.lock("d/.lock")


def test_a_write_fails_when_told_and_leaves_what_it_was_told(disk: FakeDisk) -> None:
    file = named(disk)
    disk.fail(writes=[Fault(2, ENOSPC, written=3)])
    file.write(b"one", 0)
    with pytest.raises(OSError, match="No space left"):
        file.write(b"other", 3)
    assert file.read(99, 0) == b"oneoth"
    file.write(b"four", 6)


def test_a_sync_fails_when_told(disk: FakeDisk) -> None:
    file = named(disk)
    disk.fail(syncs=[Fault(1), Fault(2, EIO)])
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_directory("d")
    file.sync()


def test_a_full_disk_takes_what_it_can_and_then_nothing(disk: FakeDisk) -> None:
    file = named(disk)
    disk.capacity = 6
    assert file.write(b"four", 0) == 4
    assert file.write(b"four", 4) == 2
    with pytest.raises(OSError, match="No space left"):
        file.write(b"x", 6)
    assert file.write(b"over", 0) == 4
    assert disk.used() == 6


def test_when_the_power_is_gone_nothing_happens_any_more(disk: FakeDisk) -> None:
    file = named(disk)
    disk.power_off_at = disk.operations + 2
    file.write(b"x", 0)
    for operation in (file.sync, lambda: disk.remove("d/f"), lambda: disk.make_directory("e")):
        with pytest.raises(PowerLossError):
            operation()
    disk.crash()
    assert read_file(disk, "d/f") == b""


def test_what_is_no_file_is_not_treated_as_one(disk: FakeDisk) -> None:
    named(disk)
    with pytest.raises(IsADirectoryError):
        disk.open("d")
    with pytest.raises(FileExistsError):
        disk.make_directory("d/f")
    with pytest.raises(OSError, match="no empty directory"):
        disk.remove_directory("d")
    with pytest.raises(FileNotFoundError):
        disk.sync_directory("nowhere")


def test_what_a_failed_sync_covered_is_written_by_no_later_sync_unless_it_is_written_again() -> None:
    disk = FakeDisk()
    file = disk.open("f", create=True)
    disk.sync_directory("")
    file.write(b"abcd", 0)
    disk.fail(syncs=[Fault(1)])
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.write(b"cd", 2)
    file.sync()
    disk.crash()
    assert disk.open("f").read(4, 0) == b"\0\0cd"
