"""What commands share: consent, and what is said of what was deleted."""

import io
import json
import sys

import pytest
import typer

from kohort.cli.session import confirm, show_deleted
from kohort.client.errors import BrokerError
from kohort.model.errors import ErrorCode

RESULTS = {"a": None, "b": BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "delete topic 'b'")}


class Typed(io.StringIO):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


def test_who_sits_at_a_terminal_is_asked_and_may_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Typed("y\n"))
    confirm("Delete a?", given=False)
    monkeypatch.setattr(sys, "stdin", Typed("n\n"))
    with pytest.raises(typer.Abort):
        confirm("Delete a?", given=False)


def test_nobody_is_asked_who_consented_or_is_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Typed("n\n"))
    confirm("Delete a?", given=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    confirm("Delete a?", given=False)
    assert sys.stdin.read() == "n\n"


def test_what_is_gone_is_said_line_by_line_and_in_json_what_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_deleted("topic", RESULTS, as_json=False)
    assert capsys.readouterr().out == "deleted topic a\n"
    show_deleted("topic", RESULTS, as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"topic": "a", "deleted": True, "error": None},
        {"topic": "b", "deleted": False, "error": "UNKNOWN_TOPIC_OR_PARTITION"},
    ]
