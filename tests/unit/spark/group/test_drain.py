"""Ending a query without anything being read again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.spark.group.checkpoint import Checkpoint
from kohort.spark.group.drain import DrainError, drain, drain_at


class FakeQuery:
    """A query whose runner does something each time it is waited for."""

    def __init__(self, turn: Callable[[int], bool]) -> None:
        self._turn = turn
        self.turns = 0
        self.is_stopped = False

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802  (Spark's name)
        self.turns += 1
        return self._turn(self.turns)

    def stop(self) -> None:
        self.is_stopped = True


def test_a_query_is_stopped_when_its_runner_has_answered(tmp_path: Path) -> None:
    runner = Checkpoint(tmp_path)

    def turn(number: int) -> bool:
        if number == 1:
            runner.forget_drain()  # it has just started
        elif token := runner.drain_wanted():
            runner.answer_drain(token)
        return False

    query = FakeQuery(turn)
    drain_at(query, tmp_path, 5)
    assert query.is_stopped
    assert query.turns == 2
    assert list(tmp_path.iterdir()) == []


def test_a_query_that_has_ended_needs_no_answer(tmp_path: Path) -> None:
    query = FakeQuery(lambda _: True)
    drain_at(query, tmp_path, 5)
    assert query.turns == 1


def test_a_query_that_does_not_listen_goes_on(tmp_path: Path) -> None:
    query = FakeQuery(lambda _: False)
    with pytest.raises(DrainError, match=r"kohort\.checkpoint"):
        drain_at(query, tmp_path, 0.2)
    assert not query.is_stopped
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_elsewhere_cannot_be_written_to() -> None:
    with pytest.raises(DrainError, match="file system"):
        drain(FakeQuery(lambda _: True), checkpoint="s3a://bucket/dir")  # type: ignore[arg-type]  # a fake
    with pytest.raises(DrainError, match="checkpoint"):
        drain(FakeQuery(lambda _: True))  # type: ignore[arg-type]  # a fake
