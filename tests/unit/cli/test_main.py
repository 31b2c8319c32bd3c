"""The entry point: what is loaded for what."""

import subprocess
import sys

import pytest

from kohort import __version__
from kohort.cli import main as entry

LOADED = """
import sys
sys.argv = ["kohort", *{arguments!r}]
from kohort.cli.main import main
try:
    main()
except SystemExit:
    pass
heavy = {{"typer", "rich", "asyncio", "kohort.broker.server", "kohort.client.connection", "logging"}}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["serve", "--bogus"], ["--version"]])
def test_serve_and_version_load_nothing_heavy_before_they_know_what_to_do(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(arguments=arguments)], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_command_loads_what_it_needs_and_not_what_the_others_need() -> None:
    program = LOADED.format(arguments=["topics", "list", "--help"]).replace(
        "heavy = {", "heavy = {'kohort.cli.topics', 'kohort.cli.records.consume', "
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stderr.splitlines()[-1]
    assert "kohort.cli.topics" in loaded
    assert "kohort.cli.records.consume" not in loaded


@pytest.mark.slow
def test_who_consumes_does_not_load_what_produces() -> None:
    script = "import sys, kohort.cli.records.consume; print('kohort.client.producer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_version_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kohort", "--version"])
    entry.main()
    assert capsys.readouterr().out == f"kohort {__version__}\n"


def test_serve_is_recognised_before_anything_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kohort", "serve", "--node-id", "x"])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 2
    assert "kohort: error: --node-id cannot be" in capsys.readouterr().err


def test_everything_else_is_the_business_of_the_framework(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kohort", "nonsense"])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 2
    assert "nonsense" in capsys.readouterr().err


def test_ctrl_c_while_a_command_is_loaded_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kohort.cli.app.run", interrupt)
    monkeypatch.setattr(sys, "argv", ["kohort", "topics", "list"])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 130
