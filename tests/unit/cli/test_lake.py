"""``kohort lake``: what is refused before Spark starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kohort.cli.app import command_line
from kohort.cli.command_config import security_properties
from kohort.cli.lake import _source
from kohort.cli.running import FAILED, USAGE
from kohort.lake.landing import SourceCluster


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


@pytest.mark.parametrize(
    "arguments", [["query", "select 1"], ["report"], ["whatif", "--group", "g", "--set", "static=true"]]
)
def test_a_lake_that_is_missing_is_named_before_spark_starts(
    tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.cli.lake._session", None)
    where = str(tmp_path / "none")
    result = CliRunner().invoke(command_line(["lake"]), ["lake", *arguments, "--to", where])
    assert result.exit_code == FAILED
    assert f"there is no lake in {where} (make one with" in result.stderr


def test_a_cluster_is_read_with_the_settings_of_a_file_and_of_x(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=alice\n")
    given = ["sasl.username=bob", "sasl_plain_password=@password"]
    place = _source("localhost:9092", ["kafka.client.id=x"], lambda: security_properties(file, given))
    source = place()
    assert isinstance(source, SourceCluster)
    assert source.reading() == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.client.id": "x",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "bob",
        "kafka.sasl_plain_password": "@password",
    }
