"""What long commands say beside their results."""

import io

import pytest

from kohort.cli.commentary import Commentary, show_partitions
from kohort.model.ids import Partition, TopicName
from kohort.model.topics import TopicPartition


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("records", "size", "seconds", "text"),
    [
        (0, 0, 0.0, "0 records, 0 B in 0.0 s"),
        (1, 5, 0.04, "1 record, 5 B in 0.0 s"),
        (12_000, 2_048, 2.0, "12,000 records, 2.0 KiB in 2.0 s (6,000/s)"),
    ],
)
def test_the_total_has_a_rate_where_that_means_something(
    records: int, size: int, seconds: float, text: str
) -> None:
    times = iter([0.0, seconds])
    commentary = Commentary("reading", quiet=False, draws=False, clock=lambda: next(times))
    commentary.advance(records, size)
    assert commentary.total() == text


def test_notes_go_to_standard_error_unless_it_is_to_be_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    Commentary("reading", quiet=False, draws=True).note("partitions assigned: t 0")
    Commentary("reading", quiet=True, draws=True).note("never said")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "partitions assigned: t 0\n")


def test_on_a_terminal_progress_is_drawn_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    commentary = Commentary("reading", quiet=False, draws=True)
    commentary.expect(10)
    with commentary:
        commentary.note("partitions [assigned]: t 0")
        commentary.expect(20)
        commentary.advance(5, 100)
    drawn = screen.getvalue()
    assert "reading" in drawn
    assert "5 records, 100 B" in drawn
    assert "partitions [assigned]: t 0" in drawn
    commentary.note("after")
    assert screen.getvalue().endswith("\x1b[2mafter\x1b[0m\n")


def test_a_quiet_command_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with Commentary("reading", quiet=True, draws=True) as commentary:
        commentary.advance(5, 100)
    assert screen.getvalue() == ""


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([], "none"),
        ([("t", 0)], "t 0"),
        ([("t", 5), ("t", 0), ("t", 2), ("t", 1), ("a", 7)], "a 7, t 0-2 5"),
    ],
)
def test_partitions_are_shown_as_runs(partitions: list[tuple[str, int]], text: str) -> None:
    assert show_partitions(TopicPartition(TopicName(t), Partition(n)) for t, n in partitions) == text
