"""What a checkpoint directory tells the runner of a query."""

import json
from pathlib import Path

import pytest

from kohort.spark.group.checkpoint import AcknowledgedOffsets, Checkpoint, local_path
from kohort.spark.group.offsets import GroupOffsetJson
from kohort.spark.offsets import topic_partition

END = {"t": {"0": {"from": 1, "to": 5, "epoch": 2}}}
OTHER = {"t": {"0": {"from": 0, "to": 1, "epoch": 2}}}


def written(root: Path, *, offsets: dict[int, object], commits: list[int]) -> Checkpoint:
    for log in ("offsets", "commits"):
        (root / log).mkdir()
    for number, end in offsets.items():
        (root / "offsets" / str(number)).write_text(f"v1\n{{}}\n-\n{json.dumps(end)}")
        (root / "offsets" / f".{number}.crc").write_text("x")
    for number in commits:
        (root / "commits" / str(number)).write_text("v1\n{}")
    return Checkpoint(root)


def test_a_batch_is_done_when_its_number_is_in_both_logs(tmp_path: Path) -> None:
    checkpoint = written(tmp_path, offsets={9: OTHER, 10: END}, commits=[9, 10])
    assert checkpoint.has_finished(END)
    assert not checkpoint.has_finished(OTHER), "only the newest counts"


def test_a_batch_that_runs_is_not_done(tmp_path: Path) -> None:
    assert not written(tmp_path, offsets={9: OTHER, 10: END}, commits=[9]).has_finished(END)


def test_a_batch_that_was_planned_and_not_written_is_not_done(tmp_path: Path) -> None:
    assert not written(tmp_path, offsets={9: OTHER}, commits=[9]).has_finished(END)


def test_a_checkpoint_that_does_not_exist_knows_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "missing")
    assert not checkpoint.has_finished(END)
    assert checkpoint.drain_wanted() is None
    checkpoint.forget_drain()


def test_notes_are_left_answered_and_taken_away(tmp_path: Path) -> None:
    application, runner = Checkpoint(tmp_path), Checkpoint(tmp_path)
    assert runner.drain_wanted() is None
    application.ask_to_drain("one")
    application.ask_to_drain("one")
    assert runner.drain_wanted() == "one"
    assert not application.has_drained("one")
    runner.answer_drain("one")
    runner.answer_drain("one")
    assert application.has_drained("one")
    application.forget_drain()
    assert list(tmp_path.iterdir()) == []


# --- what the group has acknowledged ----------------------------------------------------------

A, B = topic_partition("t", 0), topic_partition("t", 1)


def batch(first: int, end: int) -> GroupOffsetJson:
    return {"t": {"0": {"from": first, "to": end, "epoch": 2}}}


def test_what_the_group_has_acknowledged_is_noted_for_the_next_run(tmp_path: Path) -> None:
    assert Checkpoint(tmp_path).acknowledged("g", {}) == {}
    Checkpoint(tmp_path).note_acknowledged("g", batch(1, 5), {A: 5, B: 3})
    assert Checkpoint(tmp_path).acknowledged("g", batch(1, 5)) == {A: 5, B: 3}
    assert Checkpoint(tmp_path).acknowledged("another", batch(1, 5)) == {}


def test_a_note_holds_for_a_batch_that_went_on_and_not_for_one_that_went_back(tmp_path: Path) -> None:
    Checkpoint(tmp_path).note_acknowledged("g", batch(1, 5), {A: 5, B: 3})
    assert Checkpoint(tmp_path).acknowledged("g", batch(5, 9)) == {A: 5}
    assert Checkpoint(tmp_path).acknowledged("g", batch(2, 9)) == {A: 2}, "a reset was followed already"


def test_one_run_adds_to_what_those_before_it_knew(tmp_path: Path) -> None:
    Checkpoint(tmp_path).note_acknowledged("g", batch(1, 5), {A: 5, B: 3})
    known = AcknowledgedOffsets("g", Checkpoint(tmp_path))
    known.catch_up(batch(1, 5))
    known.add({A: 7})
    assert known.offsets == {A: 7, B: 3}
    known.catch_up(batch(5, 9))
    known.add({A: 6})
    assert Checkpoint(tmp_path).acknowledged("g", batch(5, 9)) == {A: 6, B: 3}
    known.forget([A.topic])
    assert known.offsets == {}


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_note_that_was_torn_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ".kohort-acknowledged").write_text(text)
    assert Checkpoint(tmp_path).acknowledged("g", {}) == {}


def test_where_nothing_can_be_written_nothing_is_noted(tmp_path: Path) -> None:
    missing = Checkpoint(tmp_path / "missing")
    missing.note_acknowledged("g", {}, {A: 5})
    assert missing.acknowledged("g", {}) == {}


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("some/where", Path("some/where")),
        ("/with space", Path("/with space")),
        ("file:///with%20space", Path("/with space")),
        ("file:/plain", Path("/plain")),
        ("hdfs://name/dir", None),
        ("s3a://bucket/dir", None),
    ],
)
def test_only_this_machines_files_can_be_asked(location: str, path: Path | None) -> None:
    assert local_path(location) == path
