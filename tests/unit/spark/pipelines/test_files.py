"""Where an archive may be."""

import errno
import fcntl
from pathlib import Path

import pytest

from kohort.spark.pipelines import files
from kohort.spark.pipelines.files import UnfitDirectoryError, check_directory, file_system


@pytest.mark.parametrize(
    "where", ["s3://bucket/shop", "s3a://bucket", "hdfs://name/shop", "gs://b/x", "abfss://c@d/x"]
)
def test_an_object_store_is_refused_and_no_directory_of_that_name_is_made(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnfitDirectoryError, match="has no locks"):
        check_directory(Path(where))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_made_and_its_locks_are_tried(tmp_path: Path) -> None:
    check_directory(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").rglob("*lock*")) == []


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(UnfitDirectoryError, match="locks do not work: No locks available"):
        check_directory(tmp_path)


def test_a_file_system_whose_locks_lock_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(UnfitDirectoryError, match="two processes would get the same lock"):
        check_directory(tmp_path)


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/my\\040bucket rw,nosuid shared:20 - fuse.s3fs s3fs rw,user_id=0
41 40 0:36 / /mnt/my\\040bucket/disk rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/home/archive", "ext4"),
        ("/mnt/my bucket", "fuse.s3fs"),
        ("/mnt/my bucket/shop", "fuse.s3fs"),
        ("/mnt/my bucket/disk/shop", "xfs"),
        ("/mnt/my buckets", "ext4"),
    ],
)
def test_a_directory_is_of_the_file_system_that_is_mounted_nearest(directory: str, kind: str) -> None:
    assert file_system(Path(directory), MOUNTS) == kind


def test_a_mounted_object_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = f"9 1 0:9 / {tmp_path.resolve()} rw - fuse.s3fs s3fs rw\n"
    monkeypatch.setattr(files, "_mounts", lambda: mounted)
    with pytest.raises(UnfitDirectoryError, match=r"fuse\.s3fs is an object store"):
        check_directory(tmp_path / "shop")
