"""A lake on disk: what counts, what is thrown away, who may write."""

import os
from pathlib import Path

import pytest

from kohort.lake.schemas import JOURNAL, LANDED, RECORDS
from kohort.lake.store import Lake, LakeError, Load


def stage(lake: Lake, number: int) -> Load:
    for table in LANDED:
        path = lake.stage(table, number) / "date=2026-01-01"
        path.mkdir(parents=True)
        (path / "rows.parquet").write_bytes(b"rows")
    return Load(number, "here", {"t": {"0": 10 * number}}, {"t": "id"}, {"records": 1})


def files(lake: Lake) -> list[str]:
    return sorted(str(path.relative_to(lake.root)) for path in lake.root.rglob("*.parquet"))


PUBLISHED = [
    f"{table.name}/load=000001/date=2026-01-01/rows.parquet" for table in (JOURNAL, LANDED[2], RECORDS)
]


def test_a_load_that_was_entered_is_in_the_tables_and_the_ledger(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        lake.enter(stage(lake, 1))
    assert files(lake) == PUBLISHED
    assert (lake.next_offsets(), lake.topic_ids()) == ({"t": {"0": 10}}, {"t": "id"})


def test_a_load_that_was_not_entered_is_thrown_away(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing():
        stage(lake, 1)
    with lake.writing():
        assert (files(lake), lake.loads()) == ([], [])


@pytest.mark.parametrize("moved", range(len(LANDED) + 1))
def test_a_move_that_was_interrupted_is_finished(
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
        load = stage(lake, 1)
        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", dies)
            if moved < len(LANDED):
                with pytest.raises(KeyboardInterrupt):
                    lake.enter(load)
            else:
                lake.enter(load)
    with lake.writing():
        assert files(lake) == PUBLISHED


def test_only_one_process_writes(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with lake.writing(), pytest.raises(LakeError, match="another process"), Lake(lake.root).writing():
        pass


def test_a_directory_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(LakeError, match="not empty"), Lake(tmp_path).writing():
        pass
    with pytest.raises(LakeError, match="no lake") as refused:
        Lake.existing(tmp_path)
    assert "backfill" in (refused.value.hint or "")


def test_a_broken_ledger_is_named(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.writing():
        pass
    (tmp_path / "_kohort" / "loads" / "000001.json").write_text("{")
    with pytest.raises(LakeError, match="000001"):
        lake.loads()
