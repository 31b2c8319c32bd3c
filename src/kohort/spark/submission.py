"""``spark-submit`` as it should be called: with our environment, our settings, and our code for executors."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kohort.spark.environment import (
    ON_ALL_CORES,
    MissingSparkError,
    is_local,
    settings,
    variables,
    with_retries,
)
from kohort.spark.shipping import archive


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job and where it is to run. Everything but the job has a default that needs nothing."""

    job: str
    arguments: tuple[str, ...] = ()
    master: str = ON_ALL_CORES
    memory: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()


def spark_home() -> Path:
    """The Spark that the installed pyspark brings. MissingSparkError if there is none."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise MissingSparkError("pyspark")
    return Path(found.origin).parent


def environment(submission: Submission, given: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the process that submits."""
    kept = {name: value for name, value in given.items() if name != "JAVA_HOME"}
    # Another Spark's scripts would bring another Spark's Python.
    return kept | variables(submission.master, given) | {"SPARK_HOME": str(spark_home())}


def command(submission: Submission, *, cache: Path | None = None) -> list[str]:
    """The command line of ``spark-submit``. Executors in other processes are given Kohort's code."""
    master = with_retries(submission.master)
    conf = settings(master, _with_memory(submission))
    files = list(submission.py_files) if is_local(master) else [str(archive(cache)), *submission.py_files]
    return [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", master),
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
        *(("--packages", ",".join(submission.packages)) if submission.packages else ()),
        *(("--py-files", ",".join(files)) if files else ()),
        submission.job,
        *submission.arguments,
    ]


def _with_memory(submission: Submission) -> dict[str, str]:
    if submission.memory is None:
        return dict(submission.conf)
    asked = {"spark.driver.memory": submission.memory}
    if not is_local(submission.master):
        asked["spark.executor.memory"] = submission.memory
    return asked | dict(submission.conf)
