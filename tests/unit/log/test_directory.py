"""The data directory: whose it is, and how the last run ended."""

import pytest
from tests.unit.log.bench import PARTITION

from kohort.log.files.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS
from kohort.log.files.directory import CHECKSUMS, DataDirectory, ForeignDirectoryError
from kohort.log.files.disk import DirectoryInUseError, read_file
from kohort.model.ids import NodeId, Offset
from kohort.testing.faults import FakeDisk

NODE = NodeId(1)


def test_a_new_directory_counts_as_closed_cleanly() -> None:
    assert DataDirectory(FakeDisk(), "data").was_closed_cleanly


def test_the_marker_of_a_clean_shutdown_is_used_once() -> None:
    disk = FakeDisk()
    directory = DataDirectory(disk, "data")
    disk.make_directory(f"data/{PARTITION}")
    directory.close(clean=True)
    assert read_file(disk, f"data/{CLEAN_SHUTDOWN}") == b'{"version":0,"brokerEpoch":-1}'
    again = DataDirectory(disk, "data")
    assert again.was_closed_cleanly
    again.close(clean=False)
    assert not DataDirectory(disk, "data").was_closed_cleanly


def test_a_directory_is_for_one_process() -> None:
    disk = FakeDisk()
    held = DataDirectory(disk, "data")
    with pytest.raises(DirectoryInUseError):
        DataDirectory(disk, "data")
    held.close(clean=True)
    DataDirectory(disk, "data").close(clean=True)


def test_a_directory_belongs_to_one_node_of_one_cluster() -> None:
    directory = DataDirectory(FakeDisk(), "data")
    assert directory.identity() == {}
    directory.identify("cluster", NODE)
    directory.identify("cluster", NODE)
    assert directory.identity() == {"version": "1", "cluster.id": "cluster", "node.id": "1"}
    with pytest.raises(ForeignDirectoryError, match=r"belongs to cluster\.id cluster"):
        directory.check_identity("another", NODE)
    with pytest.raises(ForeignDirectoryError, match=r"start with node\.id 1"):
        directory.check_identity("cluster", NodeId(2))


def test_checkpoints_survive_and_damaged_ones_count_as_none() -> None:
    disk = FakeDisk()
    directory = DataDirectory(disk, "data")
    names = (RECOVERY_POINTS,)
    assert directory.read_checkpoints(names) == ({RECOVERY_POINTS: {}}, False, [])
    for offset in (5, 6):
        directory.write_checkpoints({RECOVERY_POINTS: {PARTITION: Offset(offset)}})
        assert directory.read_checkpoints(names) == ({RECOVERY_POINTS: {PARTITION: offset}}, True, [])
    disk.open(f"data/{RECOVERY_POINTS}").truncate(4)
    offsets, _, (repair,) = directory.read_checkpoints(names)
    assert offsets == {RECOVERY_POINTS: {}}
    assert repair.directory == f"data/{RECOVERY_POINTS}"


def test_a_wrong_number_in_a_checkpoint_is_noticed_by_its_checksum() -> None:
    disk = FakeDisk()
    directory = DataDirectory(disk, "data")
    directory.write_checkpoints({RECOVERY_POINTS: {PARTITION: Offset(5)}})
    file = disk.open(f"data/{RECOVERY_POINTS}")
    content = file.read(file.size(), 0)
    file.write(content.replace(b" 5", b" 7"), 0)
    assert directory.read_checkpoints((RECOVERY_POINTS,)).offsets == {RECOVERY_POINTS: {}}
    disk.remove(f"data/{CHECKSUMS}")  # files of Kafka, and of older releases, have none
    assert directory.read_checkpoints((RECOVERY_POINTS,)).offsets == {RECOVERY_POINTS: {PARTITION: 7}}


def test_a_marker_that_cannot_be_written_is_left_out() -> None:
    disk = FakeDisk()
    directory = DataDirectory(disk, "data")
    disk.make_directory(f"data/{PARTITION}")
    disk.capacity = disk.used()
    directory.close(clean=True)
    disk.capacity = None
    assert not DataDirectory(disk, "data").was_closed_cleanly
