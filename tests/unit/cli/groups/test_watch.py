"""``--watch [SECONDS]``."""

import asyncio

import pytest

from kohort.cli.groups import watch
from kohort.cli.groups.watch import repeat, with_seconds
from kohort.cli.screen import say
from kohort.model.errors import KohortError


class Enough(Exception):  # noqa: N818 - no error, the end of a test
    """The watcher has seen what it wanted."""


class Pauses:
    """Counts how often it was waited, and ends the watch."""

    def __init__(self, rounds: int) -> None:
        self.seconds: list[float] = []
        self._rounds = rounds

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) >= self._rounds:
            raise Enough


class Answers:
    """Says one thing after another; an exception is raised."""

    def __init__(self, *answers: str | KohortError) -> None:
        self._answers = list(answers)

    async def __call__(self) -> int:
        answer = self._answers.pop(0)
        if isinstance(answer, KohortError):
            raise answer
        say(answer)
        return 0


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (["g"], ["g"]),
        (["g", "--watch"], ["g", "--watch", "2.0"]),
        (["--watch", "g"], ["--watch", "2.0", "g"]),
        (["--watch", "0.5", "g"], ["--watch", "0.5", "g"]),
        (["--watch", "--json", "g"], ["--watch", "2.0", "--json", "g"]),
        (["--watch=7"], ["--watch=7"]),
    ],
)
def test_a_watch_without_a_number_is_given_one(given: list[str], filled: list[str]) -> None:
    assert with_seconds(given) == filled


def test_without_a_watch_an_answer_is_shown_once() -> None:
    pauses = Pauses(1)
    assert asyncio.run(repeat(Answers("a"), None, False, pauses)) == 0
    assert pauses.seconds == []


def test_tables_follow_each_other_after_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    pauses = Pauses(2)
    with pytest.raises(Enough):
        asyncio.run(repeat(Answers("a", "b"), 3.0, False, pauses))
    assert capsys.readouterr().out == "a\n\nb\n"
    assert pauses.seconds == [3.0, 3.0]


def test_documents_follow_each_other_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Enough):
        asyncio.run(repeat(Answers("{}", "{}"), 1.0, True, Pauses(2)))
    assert capsys.readouterr().out == "{}\n{}\n"


def test_on_a_terminal_the_old_answer_is_wiped_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "is_terminal", lambda: True)
    with pytest.raises(Enough):
        asyncio.run(repeat(Answers("a", "b"), 1.0, False, Pauses(2)))
    assert capsys.readouterr().out == "\x1b[H\x1b[2Ja\n\x1b[H\x1b[2Jb\n"


def test_a_watch_that_fails_at_once_is_over() -> None:
    with pytest.raises(KohortError, match="no such group"):
        asyncio.run(repeat(Answers(KohortError("no such group")), 1.0, False, Pauses(1)))


def test_a_later_failure_is_told_and_watching_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Enough):
        asyncio.run(repeat(Answers("a", KohortError("gone"), "c"), 1.0, True, Pauses(3)))
    said = capsys.readouterr()
    assert said.out == "a\nc\n"
    assert said.err == "kohort: error: gone\n"
