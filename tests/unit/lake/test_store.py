"""A lake on disk: what counts, what is thrown away, who may write."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import lib as pa
from pyarrow.parquet import write_table

from kohort.lake.manifest import FANOUT, Manifest, TablePart, merged, next_merge
from kohort.lake.schemas import LANDED
from kohort.lake.store import Lake, LakeError
from kohort.spark.pipelines.delta_log import DeltaLog
from kohort.spark.pipelines.files import LocalFiles, UnfitDirectoryError


def stage(lake: Lake, step: int) -> Manifest:
    for table in LANDED:
        path = lake.stage(table.name, step) / "date=2026-01-01"
        path.mkdir(parents=True)
        write_table(pa.table({"load": [step]}), path / "rows.parquet")  # type: ignore[no-untyped-call]
    return Manifest(step=step, next_offsets={"t": {"0": 10 * step}}, topic_ids={"t": "id"})


def files(lake: Lake) -> list[str]:
    return sorted(str(path.relative_to(lake.root)) for path in lake.root.rglob("*.parquet"))


def published(*steps: int) -> list[str]:
    parts = [TablePart(step, 0, 1).directory for step in steps]
    return sorted(f"{table.name}/{part}/date=2026-01-01/rows.parquet" for table in LANDED for part in parts)


def test_what_a_step_has_staged_is_in_the_tables_when_it_is_committed(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        first = lake.commit(Manifest(), stage(lake, 1))
        lake.commit(first, stage(lake, 2))
    found = lake.manifest()
    assert files(lake) == published(1, 2)
    assert (found.step, found.next_offsets, found.rows("records")) == (2, {"t": {"0": 20}}, 2)
    assert found.fresh("records") == [TablePart(1, 0, 1), TablePart(2, 0, 1)]


def test_a_replaced_table_has_the_rows_of_the_last_step_only(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        first = lake.commit(Manifest(), stage(lake, 1))
        second = lake.commit(first, stage(lake, 2), replaced=[table.name for table in LANDED])
        assert second.fresh("records") == [TablePart(2, 0, 1)]
    assert files(lake) == published(2)


def test_what_a_refresh_replaces_stays_for_its_readers_until_the_next(tmp_path: Path) -> None:
    lake, everything = Lake(tmp_path / "lake"), [table.name for table in LANDED]

    def refreshed(step: int) -> Manifest:
        lake.stage_carry(step).mkdir(parents=True)
        return replace(stage(lake, step), carry=step)

    with lake.writing():
        first = lake.commit(Manifest(), stage(lake, 1))
        second = lake.commit(first, refreshed(2), replaced=everything)
        assert files(lake) == published(1, 2)
        third = lake.commit(second, stage(lake, 3))
        assert files(lake) == published(1, 2, 3)
        lake.commit(third, refreshed(4), replaced=everything)
        assert files(lake) == published(2, 3, 4)
    assert files(lake) == published(4), "other readers than Kohort find only what counts"


def test_a_part_is_on_the_disk_before_the_manifest_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    moved: list[Path] = []
    real_sync, real_rename = os.fsync, os.rename

    def sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        real_sync(descriptor)

    def rename(old: Path, new: Path) -> None:
        assert {path.stat().st_ino for path in (old, *old.rglob("*"))} <= synced
        synced.clear()
        moved.append(new)
        real_rename(old, new)

    lake = Lake(tmp_path / "lake")
    with lake.writing():
        after = stage(lake, 1)
        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "rename", rename)
        lake.commit(Manifest(), after)
        assert len(moved) == len(LANDED)
        assert moved[-1].parent.stat().st_ino in synced


def test_what_was_staged_and_not_committed_is_thrown_away(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        stage(lake, 1)
    with lake.writing():
        assert (files(lake), lake.manifest()) == ([], Manifest())


def test_what_spark_still_writes_for_a_process_that_was_killed_does_not_count(tmp_path: Path) -> None:
    killed, resumed = Lake(tmp_path / "lake"), Lake(tmp_path / "lake")
    with resumed.writing():
        second = stage(resumed, 1)
        for table in LANDED:  # of the same step, by a JVM that outlives its driver for some seconds
            late = killed.stage(table.name, 1) / "date=2026-01-01"
            late.mkdir(parents=True, exist_ok=True)
            write_table(pa.table({"load": [1]}), late / "late.parquet")  # type: ignore[no-untyped-call]
        resumed.commit(Manifest(), second)
        assert resumed.manifest().rows("records") == 1
    with resumed.writing():
        assert files(resumed) == published(1)


@pytest.mark.parametrize("moved", range(len(LANDED)))
def test_a_commit_that_was_interrupted_leaves_the_lake_as_it_was(
    tmp_path: Path, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "lake")
    real, calls = os.rename, 0

    def dies(old: Path, new: Path) -> None:
        nonlocal calls
        if calls >= moved:
            raise KeyboardInterrupt
        calls += 1
        real(old, new)

    with lake.writing():
        first = lake.commit(Manifest(), stage(lake, 1))
        second = stage(lake, 2)
        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", dies)
            with pytest.raises(KeyboardInterrupt):
                lake.commit(first, second)
    assert lake.manifest() == first
    with lake.writing():
        assert files(lake) == published(1)
        lake.commit(first, stage(lake, 2))
    assert files(lake) == published(1, 2)


def test_many_small_parts_become_few_and_their_number_grows_with_the_logarithm() -> None:
    parts: list[TablePart] = []
    for step in range(1, 1_001):
        parts.append(TablePart(step, 0, 10))
        while small := next_merge(parts):
            place = parts.index(small[0])
            parts[place : place + len(small)] = [merged(small)]
    assert sum(part.rows for part in parts) == 10_000
    assert len(parts) < 3 * FANOUT
    assert [part.step for part in parts] == sorted(part.step for part in parts)


def test_only_one_process_writes(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing(), pytest.raises(LakeError, match="another process"), Lake(lake.root).writing():
        pass


def test_an_object_store_is_refused_with_the_reason() -> None:
    with pytest.raises(UnfitDirectoryError, match="no locks"), Lake(Path("s3a://bucket/lake")).writing():
        pass


def test_a_directory_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(LakeError, match="not empty"), Lake(tmp_path).writing():
        pass
    with pytest.raises(LakeError, match="no lake") as refused:
        Lake.existing(tmp_path)
    assert "backfill" in (refused.value.hint or "")


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"version": 2}'])
def test_a_broken_manifest_is_named(tmp_path: Path, text: bytes) -> None:
    lake = Lake(tmp_path)
    with lake.writing():
        pass
    (tmp_path / "_kohort" / "manifest.json").write_bytes(text)
    with pytest.raises(LakeError, match=r"manifest\.json"):
        lake.manifest()


@pytest.mark.parametrize("before", ["an earlier version", "a lost manifest"])
def test_tables_without_a_manifest_are_refused_and_stay(tmp_path: Path, before: str) -> None:
    lake = Lake(tmp_path)
    if before == "a lost manifest":
        with lake.writing():
            lake.commit(Manifest(), stage(lake, 1))
        (tmp_path / "_kohort" / "manifest.json").unlink()
    else:
        (tmp_path / "_kohort" / "loads").mkdir(parents=True)
        (tmp_path / "records" / "load=000001").mkdir(parents=True)
        (tmp_path / "records" / "load=000001" / "part.parquet").touch()
    there = sorted(tmp_path.rglob("*.parquet"))
    assert there
    with pytest.raises(LakeError, match="no _kohort/manifest"), lake.writing():
        pass
    with pytest.raises(LakeError, match="no _kohort/manifest"):
        lake.manifest()
    assert sorted(tmp_path.rglob("*.parquet")) == there


def test_a_lake_of_another_version_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.writing():
        pass
    (tmp_path / "_kohort" / "manifest.json").write_bytes(b'{"version": 3}')
    with pytest.raises(LakeError, match="version 3"):
        lake.manifest()


def in_log(lake: Lake, table: str = "records") -> set[str]:
    return {f"{table}/{path}" for path in DeltaLog(LocalFiles(lake.root), table).snapshot().files}


def test_a_lake_of_delta_shows_its_readers_one_step_and_what_is_replaced_goes_with_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing(is_delta=True):
        first = lake.commit(lake.manifest(), replace(stage(lake, 1), is_delta=True))
        lake.stage_carry(2).mkdir(parents=True)
        lake.commit(first, replace(stage(lake, 2), carry=2, is_delta=True), replaced=["records"])
        assert in_log(lake) == {"records/part=00000002-0/date=2026-01-01/rows.parquet"}
        assert len(in_log(lake, "journal")) == 2


def test_a_step_that_counts_and_is_not_in_the_logs_yet_is_put_there_when_the_lake_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        lake.commit(Manifest(), stage(lake, 1))
    assert in_log(lake) == set()
    with lake.writing(is_delta=True):  # from now on, and what there is
        assert len(in_log(lake)) == 1
        with monkeypatch.context() as patched:
            patched.setattr(DeltaLog, "follow", dies)
            with pytest.raises(KeyboardInterrupt):
                lake.commit(lake.manifest(), replace(stage(lake, 2), is_delta=True))
    with lake.writing():
        assert len(in_log(lake)) == 2
        assert lake.manifest().is_delta


def dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
