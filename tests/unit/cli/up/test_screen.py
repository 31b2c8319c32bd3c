"""What is on the screen of ``kohort up``."""

import io

import pytest
from rich.console import Console

from kohort.cli.up.archive import ArchiveView
from kohort.cli.up.child import ChildPhase
from kohort.cli.up.lake import LakeView
from kohort.cli.up.screen import GroupLine, Picture, TopicLine, draw
from kohort.cli.up.services import Row


def drawn(picture: Picture, now: float = 100.0, width: int = 100, height: int | None = None) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(draw(picture, now, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def lines(picture: Picture) -> list[str]:
    return [" ".join(line.strip("│ \n").split()) for line in drawn(picture).splitlines()]


ROWS = [Row("broker", "127.0.0.1:9092"), Row("data", "here"), Row("archive", "there"), Row("lake", "yonder")]


def test_broker_topics_groups_and_archive_are_on_one_screen() -> None:
    picture = Picture(
        ROWS,
        began=35.0,
        archive=ArchiveView(phase=ChildPhase.RUNNING, batches=2, rows=900, bad=3, landed_at=98.0),
        topics=[TopicLine("orders", 3, 1_200, 41.7, 900), TopicLine("users", 1, 3, 0.0, 0)],
        groups=[GroupLine("kohort-archive", "Stable", 1, 303), GroupLine("new", "Empty", 0, None)],
    )
    shown = lines(picture)
    assert "broker 127.0.0.1:9092" in shown
    assert "archive running · 900 rows · lag 303 · 3 bad · last batch 2 s ago" in shown
    assert "orders 3 1,200 42 900" in shown
    assert "users 1 3 - 0" in shown
    assert "kohort-archive 1 303 Stable" in shown
    assert "new 0 - Empty" in shown
    assert any("up 1 min · Ctrl-C stops it" in line for line in shown)


def test_while_spark_starts_the_screen_says_so() -> None:
    shown = lines(Picture(ROWS, 0.0, ArchiveView(phase=ChildPhase.STARTING)))
    assert "archive starting · Spark takes some seconds" in shown


@pytest.mark.parametrize(
    ("lake", "shown"),
    [
        (LakeView(ChildPhase.WAITING), "lake waiting · Spark starts with the first group"),
        (LakeView(ChildPhase.STARTING), "lake starting · Spark takes some seconds"),
        (LakeView(ChildPhase.RUNNING, rows=1_200), "lake running · 1,200 rows landed · no tables yet"),
        (
            LakeView(ChildPhase.RUNNING, rows=3, refreshed_at=88.0),
            "lake running · 3 rows landed · tables made 12 s ago",
        ),
        (LakeView(ChildPhase.RESTARTING, "in 2 s: no luck"), "lake restarting · in 2 s: no luck"),
    ],
)
def test_the_lake_is_one_line_that_fits_80_columns(lake: LakeView, shown: str) -> None:
    picture = Picture(ROWS, 0.0, lake=lake)
    assert shown in lines(picture)
    assert "…" not in drawn(picture, width=80)
    assert "yonder" not in drawn(picture)


def test_without_an_archive_there_is_no_word_of_it() -> None:
    picture = Picture(ROWS[:2], 0.0, None, topics=[TopicLine("orders", 3, 1, 0.0, None)], trouble="no broker")
    assert "archive" not in drawn(picture)
    assert "no broker" in drawn(picture)


def test_what_is_too_much_for_a_screen_is_counted() -> None:
    many = [TopicLine(f"topic-{number}", 1, 0, 0.0, 0) for number in range(20)]
    groups = [GroupLine(f"group-{number}", "Stable", 1, 0) for number in range(10)]
    text = drawn(Picture(ROWS, 0.0, ArchiveView(), None, many, groups))
    assert "and 12 more" in text
    assert "and 2 more" in text


@pytest.mark.parametrize("height", range(19, 40))
@pytest.mark.parametrize(("topics", "groups"), [(30, 30), (30, 1), (1, 30), (3, 0), (0, 30)])
def test_the_picture_is_never_higher_than_the_terminal_and_counts_what_it_leaves_out(
    height: int, topics: int, groups: int
) -> None:
    picture = Picture(
        ROWS,
        0.0,
        ArchiveView(),
        LakeView(),
        [TopicLine(f"topic-{number}", 1, 0, 0.0, 0) for number in range(topics)],
        [GroupLine(f"group-{number}", "Stable", 1, 0) for number in range(groups)],
    )
    text = drawn(picture, width=80, height=height)
    assert len(text.splitlines()) < height
    for kind, there in (("topic-", topics), ("group-", groups)):
        shown = text.count(kind)
        assert shown == there or (shown > 0 and f"and {there - shown} more" in text)


def test_a_narrow_terminal_cuts_lines_instead_of_breaking_them() -> None:
    picture = Picture([Row("data", "/a/long/path" * 20)], 0.0)
    assert all(len(line) <= 40 for line in drawn(picture, width=40).splitlines())
    assert len(drawn(picture, width=40).splitlines()) == 3


def test_long_times_are_told_in_hours() -> None:
    assert "up 2 h 5 min" in drawn(Picture(ROWS, 0.0), now=7_505.0)
