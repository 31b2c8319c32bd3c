"""``kohort spark``: what is asked of Spark, without Spark."""

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kohort.cli import spark
from kohort.spark.java import JavaError

RUNNER = CliRunner()
FOUND = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.spark.environment.variables", lambda *_: FOUND)
    monkeypatch.setattr("kohort.spark.submission.variables", lambda *_: FOUND)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that would have taken the process over."""
    lines: list[list[str]] = []

    def execve(program: str, line: list[str], environment: dict[str, str]) -> None:
        assert program == line[0]
        assert environment["PYSPARK_PYTHON"] == sys.executable
        lines.append(line)
        raise SystemExit(7)

    monkeypatch.setattr(os, "execve", execve)
    return lines


def run(*arguments: str, **environment: str) -> Result:
    return RUNNER.invoke(spark.app, list(arguments), env=environment)


def test_the_environment_is_printed_for_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FOUND, "PYSPARK_PYTHON", "a place/python")
    assert run("env", JAVA_HOME="broken").stdout.splitlines() == [
        "unset JAVA_HOME",
        "export PYSPARK_PYTHON='a place/python'",
        "export SPARK_LOCAL_IP=127.0.0.1",
    ]


def test_the_environment_is_printed_for_programs() -> None:
    assert json.loads(run("env", "--json").stdout) == FOUND


def test_a_job_is_submitted_with_its_own_arguments(tmp_path: Path, started: list[list[str]]) -> None:
    job = tmp_path / "job.py"
    job.touch()
    done = run("submit", "--master", "local[2]", "--conf", "a.b=c=d", str(job), "--master", "mine")
    assert done.exit_code == 7
    (line,) = started
    assert line[1:3] == ["--master", "local[2,4]"]
    assert "a.b=c=d" in line
    assert line[-3:] == [str(job), "--master", "mine"]


def test_a_job_that_is_not_there_is_named(started: list[list[str]]) -> None:
    done = run("submit", "nowhere.py")
    assert done.exit_code == 2
    assert "there is no file nowhere.py" in done.stderr
    assert not started


def test_a_setting_without_a_value_is_refused(tmp_path: Path, started: list[list[str]]) -> None:
    job = tmp_path / "job.py"
    job.touch()
    done = run("submit", "--conf", "spark.ui.enabled", str(job))
    assert done.exit_code == 2
    assert "NAME=VALUE" in done.stderr
    assert not started


def test_what_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> dict[str, str]:
        raise JavaError("no Java for Spark: there is no java", hint="install one")

    monkeypatch.setattr("kohort.spark.environment.variables", refuse)
    done = run("env")
    assert done.exit_code == 1
    assert done.stderr == "kohort: error: no Java for Spark: there is no java (install one)\n"
