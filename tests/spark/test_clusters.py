"""The same job on other processes: only the master changes, and our code comes along.

The Python of the executors sees all installed packages but Kohort: what they run can only have been shipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, NamedTuple

import pytest

import kohort
from kohort.spark.environment import variables
from kohort.spark.submission import spark_home
from kohort.testing.plugin import Kohort

pytestmark = [pytest.mark.interop, pytest.mark.timeout(480)]

MAIN = "org.apache.spark.deploy"
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
STOP_SECONDS = 60

JOB = """
import json
import os
import sys

import kohort.spark


def with_places(batches):
    import pyarrow as pa

    import kohort.records.batch

    for batch in batches:
        places = [kohort.records.batch.__file__], [os.getcwd()]
        columns = [batch.column("value"), *(pa.array(place * batch.num_rows) for place in places)]
        yield pa.RecordBatch.from_arrays(columns, ["value", "code", "directory"])


spark = kohort.spark.session("clusters")
topic = (
    spark.read.format("kohort")
    .option("kafka.bootstrap.servers", sys.argv[1])
    .option("subscribe", sys.argv[2])
    .option("kohort.task.offsets", "1")  # a task for each partition, so that all executors have work
    .load()
)
placed = topic.mapInArrow(with_places, "value binary, code string, directory string").collect()
print(json.dumps([[row.value.decode(), row.code, row.directory] for row in placed]))
spark.stop()
"""


class JobResult(NamedTuple):
    """What a job read, and from where its tasks had Kohort and in which directories they ran."""

    values: list[str]
    code: set[str]
    directories: set[str]


class Bench(NamedTuple):
    """A topic, a job that reads it, and the Python of its executors."""

    job: Path
    python: Path
    topic: str
    bootstrap: str

    def submit(self, master: str) -> JobResult:
        """Run the job and return what it printed; it must succeed."""
        asked = {
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": SMALL_JVM,
            "spark.executor.extraJavaOptions": SMALL_JVM,
            # Both executors before the first task, so that both have something to do.
            "spark.cores.max": "2",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }
        done = subprocess.run(
            [
                *(sys.executable, "-m", "kohort.cli.main", "spark", "submit", "--master", master),
                *(part for name, value in asked.items() for part in ("--conf", f"{name}={value}")),
                *(str(self.job), self.bootstrap, self.topic),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.job.parent,
            env=os.environ
            | {
                "PYSPARK_PYTHON": str(self.python),
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )
        assert done.returncode == 0, done.stdout + done.stderr
        rows = json.loads(done.stdout.splitlines()[-1])
        return JobResult(sorted(row[0] for row in rows), {row[1] for row in rows}, {row[2] for row in rows})


@pytest.fixture
def bench(kohort: Kohort, tmp_path: Path) -> Bench:
    job, python = tmp_path / "job.py", tmp_path / "python-without-kohort"
    job.write_text(JOB)
    packages = os.pathsep.join(dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")))
    # Without `site` no .pth file is read: the editable installation of Kohort is such a file.
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{sys.executable}" -S "$@"\n'
    )
    python.chmod(0o755)
    topic = kohort.topic(partitions=2)
    write(kohort.bootstrap, topic)
    return Bench(job, python, topic, kohort.bootstrap)


VALUES = [str(number) for number in range(10)]


def write(bootstrap: str, topic: str) -> None:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(VALUES):
            producer.send(topic, value=value.encode(), partition=number % 2)


def assert_shipped(places: JobResult) -> None:
    assert places.values == VALUES
    (code,) = places.code
    assert re.search(rf"(^|/)kohort-{re.escape(kohort.__version__)}-\w+\.zip/kohort/records/batch\.py$", code)
    assert len(places.directories) == 2, "one of the executors had nothing to do"


@pytest.mark.soak  # the next test has all of it but the master that Spark starts by itself
def test_a_job_runs_on_two_executors_of_a_local_cluster(bench: Bench) -> None:
    places = bench.submit("local-cluster[2,1,1024]")
    try:
        assert_shipped(places)
    finally:
        for application in {Path(directory).parent for directory in places.directories}:
            shutil.rmtree(application)  # Spark leaves it beside itself


def test_the_same_job_runs_on_a_standalone_master_with_two_workers(bench: Bench, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        places = bench.submit(master)
    assert_shipped(places)
    assert all(Path(directory).is_relative_to(tmp_path) for directory in places.directories)


@contextmanager
def standalone(home: Path) -> Iterator[str]:
    """A master and two workers of one core each, as processes on loopback; the master's address."""
    with ExitStack() as running:
        master = running.enter_context(daemon("master.Master", [], r"Starting Spark master at (spark://\S+)"))
        for name in ("one", "two"):
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(home / name)]
            running.enter_context(daemon("worker.Worker", [*limits, master], r"Successfully registered"))
        yield master


@contextmanager
def daemon(name: str, options: list[str], ready: str) -> Iterator[str]:
    """A process of Spark's own; what ``ready`` finds in its log. It is stopped with the block."""
    given = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "PYTHON"))}
    environment = given | variables("local", given) | {"SPARK_HOME": str(spark_home())}
    environment["SPARK_DAEMON_MEMORY"] = "256m"
    command = [str(spark_home() / "bin" / "spark-class"), f"{MAIN}.{name}", "--host", "127.0.0.1"]
    command += ["--port", "0", "--webui-port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            found = wait_for(process.stderr, ready)
            # Nobody may be kept waiting for us to read the rest.
            Thread(target=process.stderr.read, daemon=True).start()
            yield found
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def wait_for(log: IO[str], pattern: str) -> str:
    lines = []
    for line in log:
        lines.append(line)
        if found := re.search(pattern, line):
            return found[found.re.groups]
    raise AssertionError(f"it ended before it was ready: {''.join(lines)}")
