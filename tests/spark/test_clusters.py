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
from tests.spark.test_lake_refresh import tables_of

import kohort
from kohort.lake.histories import make_history
from kohort.lake.store import Lake
from kohort.records.batch import NewRecord
from kohort.records.build import BatchFields, build_batch
from kohort.records.group_records import OffsetCommitKey, OffsetCommitValue
from kohort.records.offsets_topic import encode_key, encode_value
from kohort.spark.environment import is_local, variables
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


LAKE_JOB = """
import sys
from pathlib import Path

import kohort.spark
from kohort.lake.landing import Files, fill
from kohort.lake.store import Lake

spark = kohort.spark.session("lake")
lake = Lake(Path(sys.argv[2]))
with lake.writing():
    fill(spark, lake, Files(Path(sys.argv[1])), lambda event: None)
spark.stop()
"""


class JobResult(NamedTuple):
    """What a job read, and from where its tasks had Kohort and in which directories they ran."""

    values: list[str]
    code: set[str]
    directories: set[str]


class Submission(NamedTuple):
    """A job, and the Python of its executors."""

    job: Path
    python: Path

    def run(self, master: str, *arguments: str) -> str:
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
                *(str(self.job), *arguments),
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
        return done.stdout


class Bench(NamedTuple):
    """A topic, and a job that reads it."""

    submission: Submission
    topic: str
    bootstrap: str

    def submit(self, master: str) -> JobResult:
        rows = json.loads(self.submission.run(master, self.bootstrap, self.topic).splitlines()[-1])
        return JobResult(sorted(row[0] for row in rows), {row[1] for row in rows}, {row[2] for row in rows})


def submission(directory: Path, text: str) -> Submission:
    job, python = directory / "job.py", directory / "python-without-kohort"
    job.write_text(text)
    packages = os.pathsep.join(dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")))
    # Without `site` no .pth file is read: the editable installation of Kohort is such a file.
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{sys.executable}" -S "$@"\n'
    )
    python.chmod(0o755)
    return Submission(job, python)


@pytest.fixture
def bench(kohort: Kohort, tmp_path: Path) -> Bench:
    topic = kohort.topic(partitions=2)
    write(kohort.bootstrap, topic)
    return Bench(submission(tmp_path, JOB), topic, kohort.bootstrap)


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


def filled(master: str, directory: Path, data: Path) -> dict[str, list[str]]:
    """The rows of all tables of a lake that was filled there from these segments."""
    directory.mkdir()
    made = submission(directory, LAKE_JOB)
    if is_local(master):  # tasks run in the driver's own processes, and nothing is shipped
        made = made._replace(python=Path(sys.executable))
    made.run(master, str(data), str(directory / "lake"))
    lake = Lake(directory / "lake")
    assert lake.manifest().rows("records") > 0
    return tables_of(lake)


def write_segments(data: Path) -> None:
    """A group's history and its commits, and the log of the topic that it reads."""
    history = [NewRecord(one.timestamp, one.key, one.value) for one in make_history(seed=1, steps=12).records]
    commits = [
        NewRecord(
            history[-1].timestamp + number,
            encode_key(OffsetCommitKey(group="billing", topic="orders", partition=number % 12)),
            encode_value(
                OffsetCommitValue(
                    offset=number,
                    leader_epoch=0,
                    metadata="",
                    commit_timestamp=history[-1].timestamp + number,
                    topic_id=bytes(16),
                )
            ),
        )
        for number in range(48)
    ]
    shares = {"__consumer_offsets-0": history, "__consumer_offsets-1": commits}
    for number in range(12):
        shares[f"orders-{number}"] = [NewRecord(0, b"k", b"v")] * 50
    for name, records in shares.items():
        (data / name).mkdir(parents=True)
        batch = build_batch(records, BatchFields(base_offset=0))
        (data / name / f"{0:020}.log").write_bytes(batch)


def assert_the_same_lake(found: dict[str, list[str]], here: dict[str, list[str]]) -> None:
    assert found == here
    for table in ("offset_commits", "group_snapshots", "lag_status", "rebalances", "member_sessions"):
        assert len(here[table]) > 5


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("segments")
    write_segments(data)
    return data


@pytest.fixture(scope="module")
def lake_here(segments: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return filled("local[2]", tmp_path_factory.mktemp("here") / "job", segments)


@pytest.mark.soak  # some twenty small Spark jobs on three JVMs: minutes on a busy machine
def test_the_lake_is_the_same_on_a_standalone_master_with_two_workers(
    segments: Path, lake_here: dict[str, list[str]], tmp_path: Path
) -> None:
    with standalone(tmp_path) as master:
        there = filled(master, tmp_path / "job", segments)
    assert_the_same_lake(there, lake_here)


@pytest.mark.soak
def test_the_lake_is_the_same_on_a_local_cluster(
    segments: Path, lake_here: dict[str, list[str]], tmp_path: Path
) -> None:
    work = spark_home() / "work"
    before = set(work.glob("*"))
    try:
        assert_the_same_lake(filled("local-cluster[2,1,1024]", tmp_path / "job", segments), lake_here)
    finally:
        for application in set(work.glob("app-*")) - before:
            shutil.rmtree(application)  # Spark leaves it beside itself


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
