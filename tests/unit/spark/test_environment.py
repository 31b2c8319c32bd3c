"""What Spark is started with."""

import os
import sys
from pathlib import Path

import pytest

import kohort.spark
from kohort.spark import environment
from kohort.spark.environment import (
    is_local,
    on_this_machine,
    set_variables,
    settings,
    variables,
    with_retries,
)
from kohort.spark.java import Java

LOG_OPTION = "-Dlog4j2.configurationFile=file:"


@pytest.fixture(autouse=True)
def _java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that is always there: the choice has tests of its own."""
    chosen = Java("somewhere/bin/java", "somewhere", "JAVA_HOME")
    monkeypatch.setattr("kohort.spark.java.find_java", lambda *_, **__: chosen)
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("master", "retried"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_failed_task_is_tried_again_unless_the_user_said_how_often(master: str, retried: str) -> None:
    assert with_retries(master) == retried


def test_the_processes_of_a_local_cluster_are_not_ours_but_on_this_machine() -> None:
    assert is_local("local[2]")
    assert not is_local("local-cluster[2,1,1024]")
    assert on_this_machine("local-cluster[2,1,1024]")
    assert not on_this_machine("spark://local:7077")


def test_workers_run_this_python_and_names_are_not_looked_up() -> None:
    assert variables("local[2]", {}) == {
        "JAVA_HOME": "somewhere",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_what_the_user_has_set_stays() -> None:
    wanted = variables("local", {"PYSPARK_PYTHON": "python3.12", "SPARK_LOCAL_IP": "10.0.0.1"})
    assert wanted["PYSPARK_PYTHON"] == "python3.12"
    assert wanted["SPARK_LOCAL_IP"] == "10.0.0.1"


def test_a_driver_that_others_must_reach_is_not_put_on_loopback() -> None:
    assert "SPARK_LOCAL_IP" not in variables("spark://host:7077", {})
    assert "spark.driver.host" not in settings("spark://host:7077", {})


def test_a_java_home_that_must_not_be_set_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Java("somewhere/bin/java", None, "PATH")
    monkeypatch.setattr("kohort.spark.java.find_java", lambda *_, **__: chosen)
    monkeypatch.setenv("JAVA_HOME", "broken")
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "remembered by monkeypatch, to be put back")
        monkeypatch.delenv(name)
    set_variables("local")
    assert "JAVA_HOME" not in os.environ
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_settings_given_win_over_ours() -> None:
    wanted = settings("local[2]", {"spark.driver.memory": "3g", "spark.x": "y"})
    assert wanted["spark.driver.memory"] == "3g"
    assert wanted["spark.x"] == "y"
    assert wanted["spark.sql.session.timeZone"] == "UTC"


def test_java_options_are_joined() -> None:
    options = settings("local", {environment.JAVA_OPTIONS: "-Xss4m"})[environment.JAVA_OPTIONS]
    assert options.startswith(LOG_OPTION)
    assert options.endswith(" -Xss4m")


def test_whoever_configures_logging_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log4j2.properties").write_text("rootLogger.level = info\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert environment.JAVA_OPTIONS not in settings("local", {})


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        _ = kohort.spark.sesion
