"""The two disks that work: of this machine, and in memory."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.log.files.disk import (
    DirectoryInUseError,
    Disk,
    RealDisk,
    ShortWriteError,
    read_file,
    remove_if_there,
    remove_tree,
    replace_file,
    write_all,
)
from kohort.log.files.memory import MemoryDisk
from kohort.testing.faults import FakeDisk, Fault

DiskPath = tuple[Disk, str]


@pytest.fixture(params=["files", "memory", "fake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> DiskPath:
    disks: dict[str, Disk] = {"files": RealDisk(), "memory": MemoryDisk(), "fake": FakeDisk()}
    root = str(tmp_path / "root") if request.param == "files" else "some/root"
    disks[request.param].make_directory(root)
    return disks[request.param], root


def names(place: DiskPath) -> list[str]:
    disk, root = place
    return sorted(entry.name for entry in disk.entries(root))


def test_what_is_written_at_a_position_is_read_there(place: DiskPath) -> None:
    disk, root = place
    file = disk.open(f"{root}/f", create=True)
    assert file.write(b"hello", 0) == 5
    assert file.write(b"p!", 3) == 2
    assert file.write(b"end", 7) == 3
    assert file.read(100, 0) == b"help!\0\0end"
    assert file.read(2, 3) == b"p!"
    assert file.read(5, 50) == b""
    assert file.size() == 10
    file.sync()


def test_a_file_is_cut_and_stretched(place: DiskPath) -> None:
    disk, root = place
    file = disk.open(f"{root}/f", create=True)
    file.write(b"hello", 0)
    file.truncate(2)
    assert file.read(10, 0) == b"he"
    file.truncate(4)
    assert file.read(10, 0) == b"he\0\0"


def test_all_who_open_a_file_see_the_same(place: DiskPath) -> None:
    disk, root = place
    disk.open(f"{root}/f", create=True).write(b"x", 0)
    assert disk.open(f"{root}/f").read(1, 0) == b"x"
    assert disk.open(f"{root}/f", create=True).size() == 1


def test_a_file_that_is_not_there_is_not_opened(place: DiskPath) -> None:
    disk, root = place
    for path in (f"{root}/nothing", f"{root}/no/where"):
        with pytest.raises(FileNotFoundError):
            disk.open(path)
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/no/where", create=True)
    assert read_file(disk, f"{root}/nothing") is None
    assert disk.entries(f"{root}/no") == []


def test_a_directory_tells_what_is_in_it(place: DiskPath) -> None:
    disk, root = place
    disk.make_directory(f"{root}/inner")
    disk.make_directory(f"{root}/inner")
    disk.open(f"{root}/f", create=True).write(b"abc", 0)
    found = {entry.name: (entry.size, entry.is_directory) for entry in disk.entries(root)}
    assert found.keys() == {"inner", "f"}
    assert found["f"] == (3, False)
    assert found["inner"][1]
    disk.sync_directory(root)


def test_a_file_takes_the_place_of_another(place: DiskPath) -> None:
    disk, root = place
    disk.open(f"{root}/old", create=True).write(b"old", 0)
    disk.open(f"{root}/new", create=True).write(b"new", 0)
    disk.rename(f"{root}/new", f"{root}/old")
    assert names(place) == ["old"]
    assert read_file(disk, f"{root}/old") == b"new"
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/new", f"{root}/old")


def test_a_directory_is_renamed_with_what_is_in_it_and_removed(place: DiskPath) -> None:
    disk, root = place
    disk.make_directory(f"{root}/d/e")
    disk.open(f"{root}/d/f", create=True).write(b"x", 0)
    remove_if_there(disk, f"{root}/d/nothing")
    disk.remove(f"{root}/d/f")
    with pytest.raises(FileNotFoundError):
        disk.remove(f"{root}/d/f")
    disk.open(f"{root}/d/g", create=True)
    remove_tree(disk, f"{root}/d")
    assert names(place) == []


def test_renaming_a_directory_moves_its_files(place: DiskPath) -> None:
    disk, root = place
    disk.make_directory(f"{root}/d")
    disk.open(f"{root}/d/f", create=True).write(b"x", 0)
    disk.rename(f"{root}/d", f"{root}/moved")
    assert read_file(disk, f"{root}/moved/f") == b"x"
    assert disk.entries(f"{root}/d") == []


def test_replacing_a_file_leaves_no_other_behind(place: DiskPath) -> None:
    disk, root = place
    replace_file(disk, f"{root}/f", b"first and long")
    replace_file(disk, f"{root}/f", b"second")
    assert read_file(disk, f"{root}/f") == b"second"
    assert names(place) == ["f"]


def test_a_lock_is_given_back(place: DiskPath) -> None:
    disk, root = place
    disk.lock(f"{root}/.lock").release()
    disk.lock(f"{root}/.lock").release()


def test_a_partial_write_is_an_error() -> None:
    disk = FakeDisk()
    disk.fail(writes=[Fault(1, 0, written=2)])
    with pytest.raises(ShortWriteError, match="only 2 of 5 bytes"):
        write_all(disk.open("f", create=True), b"hello", 0)


def test_a_second_broker_is_kept_out_and_told_what_to_do(tmp_path: Path) -> None:
    disk = RealDisk()
    held = disk.lock(f"{tmp_path}/.lock")
    with pytest.raises(DirectoryInUseError) as refusal:
        disk.lock(f"{tmp_path}/.lock")
    assert f"in use by process {os.getpid()}" in str(refusal.value)
    assert "stop that broker first" in str(refusal.value)
    held.release()
    disk.lock(f"{tmp_path}/.lock").release()


@pytest.mark.slow
def test_a_broker_of_another_process_is_kept_out_until_it_dies(tmp_path: Path) -> None:
    script = (
        "import sys; from kohort.log.files.disk import RealDisk;"
        "lock = RealDisk().lock(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, f"{tmp_path}/.lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUseError, match=str(process.pid)):
            RealDisk().lock(f"{tmp_path}/.lock")
        process.kill()
    RealDisk().lock(f"{tmp_path}/.lock").release()


def test_a_file_closes_when_nobody_holds_it(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc to count descriptors")
    gc.collect()  # what other tests left behind goes now, and not in between
    before = len(list(descriptors.iterdir()))
    file = RealDisk().open(f"{tmp_path}/f", create=True)
    assert len(list(descriptors.iterdir())) == before + 1
    del file
    assert len(list(descriptors.iterdir())) == before
