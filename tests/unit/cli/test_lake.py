"""``kohort lake``: what is refused before Spark starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kohort.cli.app import command_line
from kohort.cli.serve import USAGE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "no/such/directory"], "there is no directory no/such/directory"),
        (["--from", "localhost:9092", "--option", "kafka.client.id"], "kafka.NAME=VALUE"),
        (["--from", "localhost:9092", "--option", "client.id=x"], "kafka.NAME=VALUE"),
        (["--from", "localhost:9092", "--option", "sasl.password=hidden"], "'sasl.password'"),
        (["--from", ".", "--option", "kafka.client.id=x"], "needs a cluster"),
    ],
)
@pytest.mark.parametrize("command", ["backfill", "run"])
def test_a_source_that_cannot_be_is_refused_at_once(
    command: str, arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CliRunner().invoke(command_line(["lake"]), ["lake", command, "--to", str(tmp_path), *arguments])
    assert result.exit_code == USAGE
    told = result.stderr + capsys.readouterr().err
    assert said in told
    assert "hidden" not in told
