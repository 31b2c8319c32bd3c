"""Files that are made again when they are gone."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kohort.spark.cache import CacheError, cache_directory, keep


def test_the_directory_is_the_users() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/somewhere"}) == Path("/somewhere/kohort")
    assert cache_directory({}) == Path.home() / ".cache" / "kohort"
    assert cache_directory({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "kohort"


def test_what_is_there_stays(tmp_path: Path) -> None:
    path = keep(tmp_path / "deep" / "file", b"text")
    made = path.stat()
    assert keep(path, b"text").stat().st_ino == made.st_ino


def test_what_is_damaged_is_made_again(tmp_path: Path) -> None:
    path = keep(tmp_path / "file", b"text", executable=True)
    path.write_bytes(b"te")
    path.chmod(0o644)
    assert keep(path, b"text", executable=True).read_bytes() == b"text"
    assert os.access(path, os.X_OK)
    path.chmod(0o644)
    assert os.access(keep(path, b"text", executable=True), os.X_OK)


def test_whoever_comes_at_the_same_time_leaves_one_whole_file(tmp_path: Path) -> None:
    content = b"text" * 10_000
    path = tmp_path / "deep" / "file"
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: keep(path, content).read_bytes(), range(32)))
    assert seen == [content] * 32
    assert list(path.parent.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(CacheError, match=r"cannot write .*file/deep.*XDG_CACHE_HOME"):
        keep(tmp_path / "file" / "deep", b"text")


def test_nothing_is_left_of_what_could_not_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(CacheError, match="No space left"):
        keep(tmp_path / "file", b"text")
    assert not list(tmp_path.iterdir())
