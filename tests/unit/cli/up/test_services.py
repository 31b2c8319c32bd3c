"""The services of ``kohort up``."""

import pytest

from kohort.cli.up.services import own_command


def test_a_suggestion_can_be_typed_also_where_the_shell_does_not_know_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: "/bin/kohort")
    assert own_command() == "kohort"
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert own_command().endswith(("bin/kohort", "-m kohort.cli.main"))
