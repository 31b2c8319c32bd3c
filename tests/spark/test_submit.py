"""The job of the how-to, submitted where nobody has installed Java."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import Page

import kohort
from kohort.testing.plugin import Kohort

ADDRESS = "127.0.0.1:9092"

# What Spark's start scripts call; they stand where many systems keep their java as well.
TOOLS = ("bash", "sh", "env", "dirname", "basename", "uname", "head", "ps", "rm", "chmod", "ls")


def write(to: Kohort, topic: str, values: list[bytes]) -> None:
    with kohort.Producer(bootstrap_servers=to.bootstrap) as producer:
        for value in values:
            producer.send(topic, value)


def without_java(tools: Path) -> dict[str, str]:
    """An environment in which no Java is to be found."""
    tools.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    hidden = ("JAVA_HOME", "PATH", "SPARK_HOME", "SPARK_CONF_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"PATH": str(tools), "XDG_CACHE_HOME": str(tools.parent / "cache")}


@pytest.mark.interop  # for its time: a second JVM; where there is no Java, all tests of Spark run this way
@pytest.mark.timeout(300)
def test_the_job_of_the_howto_runs_without_java_and_its_exit_code_is_ours(
    kohort: Kohort, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    topic = kohort.topic(partitions=2)
    write(kohort, topic, [b"to be", b"or not", b"to be"])
    job = tmp_path / "wordcount.py"
    (program,) = (
        block for block in Page("docs/howto/spark.md").blocks if block.marks.get("file") == job.name
    )
    job.write_text(program.text.replace(ADDRESS, kohort.bootstrap) + "sys.exit(3)\n")
    options = ["--master", "local[2]", "--memory", "1g", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(
        [*(sys.executable, "-m", "kohort.cli.main", "spark", "submit"), *options, str(job), topic, "words"],
        cwd=tmp_path,
        env=without_java(tmp_path / "tools"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    counts = pq.read_table(  # type: ignore[no-untyped-call]  # pyarrow has no types
        tmp_path / "words"
    ).to_pylist()
    assert {row["word"]: row["count"] for row in counts} == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert list((tmp_path / "cache" / "kohort").glob("java-*/bin/java")), "it ran on another Java"
    assert "WARN" not in done.stderr, "the first words of a start are not warnings"
