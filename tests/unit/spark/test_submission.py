"""How spark-submit is called, and what goes to the executors."""

import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

import kohort
from kohort.spark import submission
from kohort.spark.environment import MissingSparkError
from kohort.spark.shipping import archive
from kohort.spark.submission import Submission, command, environment


def values(line: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(line) if name == option]


def test_a_local_job_gets_retries_memory_and_no_archive(tmp_path: Path) -> None:
    line = command(Submission(job="job.py", arguments=("--day", "1"), master="local[2]"), cache=tmp_path)
    assert values(line, "--master") == ["local[2,4]"]
    assert "spark.driver.memory=2g" in values(line, "--conf")
    assert "--py-files" not in line
    assert line[-3:] == ["job.py", "--day", "1"]


def test_a_job_for_a_cluster_ships_our_code_before_the_users(tmp_path: Path) -> None:
    job = Submission(
        job="job.py",
        master="spark://host:7077",
        memory="4g",
        conf={"spark.executor.memory": "1g"},
        packages=("a:b:1", "c:d:2"),
        py_files=("mine.zip",),
    )
    line = command(job, cache=tmp_path)
    assert values(line, "--py-files") == [f"{archive(tmp_path)},mine.zip"]
    assert values(line, "--packages") == ["a:b:1,c:d:2"]
    assert "spark.driver.memory=4g" in values(line, "--conf")
    assert "spark.executor.memory=1g" in values(line, "--conf")


def test_the_spark_of_the_installed_pyspark_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Submission(job="job.py")
    monkeypatch.setattr(submission, "variables", lambda *_: {"PYSPARK_PYTHON": sys.executable})
    given = environment(job, {"SPARK_HOME": "another", "JAVA_HOME": "broken", "HOME": "home"})
    assert given == {
        "HOME": "home",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(submission.spark_home()),
    }
    assert Path(command(job)[0]).is_file()


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        MissingSparkError, match=r"pyspark is not installed \(pip install 'kohort\[spark\]'\)"
    ):
        command(Submission(job="job.py"))


def test_the_archive_holds_both_packages_and_nothing_compiled(tmp_path: Path) -> None:
    names = zipfile.ZipFile(archive(tmp_path)).namelist()
    assert {"kohort/__init__.py", "kohort/records/batch.py"} <= set(names)
    assert not [name for name in names if name.endswith(".pyc") or "__pycache__" in name]
    assert names == sorted(names)


def test_the_archive_is_made_once_for_the_same_files(tmp_path: Path) -> None:
    first = archive(tmp_path)
    made = first.stat()
    assert archive(tmp_path) == first
    assert first.stat().st_ino == made.st_ino
    assert first.name.startswith(f"kohort-{kohort.__version__}-")


def test_kohort_that_runs_from_an_archive_is_shipped_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = archive(tmp_path)
    monkeypatch.setattr(kohort, "__file__", str(packed / "kohort" / "__init__.py"))
    assert archive(tmp_path) == packed
