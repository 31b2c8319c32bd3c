"""Each process is an instance of its own, and finishes what the last one of its name has left."""

from pathlib import Path

import pytest

from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.instances import InstanceError, checkpoint_of, claimed


def test_each_takes_the_first_number_that_is_free(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    with claimed(files, None) as first:
        with claimed(files, None) as second:
            assert (first, second) == ("1", "2")
        with claimed(files, None) as again:
            assert again == "2"


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    with (
        claimed(files, "a"),
        pytest.raises(InstanceError, match="'a' is running already"),
        claimed(files, "a"),
    ):
        pass


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="cannot be the name"), claimed(LocalFiles(tmp_path), "../x"):
        pass


def test_what_a_dead_instance_was_writing_is_removed(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    left = tmp_path / "_kohort" / "_staging" / "1" / "half.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    with claimed(files, None):
        assert not left.exists()


def test_checkpoints_are_apart_by_cluster_group_and_instance() -> None:
    assert checkpoint_of("c/1", "my group", "2") == "_kohort/_checkpoints/c%2F1/my%20group/2"
