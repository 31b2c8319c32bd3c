"""``kohort lake``: what is refused before Spark starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kohort.cli.app import command_line
from kohort.cli.command_config import security_properties
from kohort.cli.lake import _source
from kohort.cli.running import FAILED, OK, USAGE
from kohort.lake.landing import Files, SourceCluster


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


COMMANDS = [
    ["lake", "backfill", "--from", "localhost:9092"],
    ["lake", "run", "--from", "localhost:9092"],
    ["lake", "query", "select 1"],
    ["lake", "report"],
    ["lake", "whatif", "--group", "g", "--set", "static=true"],
    ["pipeline", "archive", "--topics", "t", "--group", "g"],
    ["pipeline", "status"],
    ["pipeline", "compact"],
    ["pipeline", "schema"],
    ["pipeline", "replay-bad"],
    ["pipeline", "sql", "select 1"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
@pytest.mark.parametrize("where", ["s3a://bucket/tables", "hdfs://name:8020/tables", "gs://b/x"])
def test_an_object_store_is_refused_at_once_with_the_reason(
    command: list[str], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CliRunner().invoke(command_line(command[:1]), [*command, "--to", where])
    assert result.exit_code == USAGE
    told = " ".join((result.stderr + capsys.readouterr().err).split())
    assert f"cannot keep tables in {where}: {where.partition(':')[0]} is not a directory" in told
    assert "copy from there" in told


def test_a_directory_may_be_named_as_a_file_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "my tables"
    for url in (where.as_uri(), f"file:{where}"):
        result = CliRunner().invoke(command_line(["pipeline"]), ["pipeline", "status", "--to", url])
        assert f"there is no directory {where}" in result.stderr + capsys.readouterr().err
    where.mkdir()
    result = CliRunner().invoke(
        command_line(["pipeline"]), ["pipeline", "status", "--to", where.as_uri(), "--json"]
    )
    assert (result.exit_code, result.stdout.strip()) == (OK, "[]")


@pytest.mark.parametrize(
    "command", [COMMANDS[0], COMMANDS[1], COMMANDS[5]], ids=lambda one: " ".join(one[:2])
)
def test_iceberg_is_refused_with_what_to_do_instead(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*command, "--to", str(tmp_path), "--format", "iceberg"]
    result = CliRunner().invoke(command_line(command[:1]), asked)
    assert result.exit_code == USAGE
    told = result.stderr + capsys.readouterr().err
    assert "no metadata of Iceberg" in told
    assert "add_files" in told


def test_segments_may_be_named_as_a_file_url(tmp_path: Path) -> None:
    assert _source(tmp_path.as_uri(), None, dict)() == Files(tmp_path)


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
