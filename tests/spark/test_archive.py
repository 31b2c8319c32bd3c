"""The archive as a member of its group: replays, hand-overs and deaths, and every record there once."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.clients.waiting import eventually
from tests.spark.archive_stage import Stage

from kohort.spark.pipelines.archive import ArchiveOptions, PipelineError, archive
from kohort.spark.pipelines.delta_log import DeltaLog
from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.landing import Lander
from kohort.spark.pipelines.progress import Ended, Event, Landed, Started
from kohort.spark.pipelines.status import status
from kohort.testing.plugin import Kohort

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def stage(kohort: Kohort, tmp_path: Path) -> Stage:
    return Stage(kohort, tmp_path / "archive")


def run(spark: "SparkSession", options: ArchiveOptions) -> list[Event]:
    events: list[Event] = []
    archive(options, events.append, threading.Event(), spark)
    return events


def test_a_batch_that_landed_but_was_not_noted_is_not_landed_again_and_the_next_run_goes_on(
    spark: "SparkSession", stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.send(40)
    land = Lander.land

    def die_after_landing(self: Lander, frame: "DataFrame", batch: int) -> None:
        land(self, frame, batch)
        raise OSError("died after landing")

    with monkeypatch.context() as patch:
        patch.setattr(Lander, "land", die_after_landing)
        with pytest.raises(PipelineError, match="died after landing"):
            run(spark, replace(stage.options(), is_delta=True))
    assert stage.offsets() == stage.expected()
    stage.send(8)
    landed = [event for event in run(spark, stage.options()) if isinstance(event, Landed)]
    assert sum(event.skipped for event in landed) == 40
    assert sum(event.rows.get(stage.topic, 0) for event in landed) == 8
    assert stage.offsets() == stage.expected()
    stage.send(4)
    heir = run(spark, stage.options(instance="heir"))
    assert heir[0] == Started("heir", stage.group)
    assert heir[-1] == Ended(1, 4)
    assert stage.offsets() == stage.expected()
    (table,) = status(stage.root)
    assert (table.rows, table.missing) == (52, 0)
    log = DeltaLog(LocalFiles(stage.root), stage.topic)
    assert len(log.snapshot().files) == table.files, "begun by the first run, and kept by the others"


def test_a_topic_that_is_made_again_lands_whole_and_the_old_records_stay(
    spark: "SparkSession", stage: Stage
) -> None:
    stage.send(40)
    run(spark, stage.options())
    old = stage.expected()
    stage.make_topic_again()
    stage.send(60)
    landed = [event for event in run(spark, stage.options()) if isinstance(event, Landed)]
    assert sum(event.rows.get(stage.topic, 0) for event in landed) == 60
    assert stage.offsets() == sorted(old + stage.expected())
    (table,) = status(stage.root)
    assert (table.rows, table.missing, len({one.topic_id for one in table.partitions})) == (100, 0, 2)


def start(stage: Stage) -> "subprocess.Popen[str]":
    """The command as a process with a session of its own."""
    command = [sys.executable, "-m", "kohort.cli.main", "pipeline", "archive", "--json", "--trigger", "1"]
    where = ["--topics", stage.topic, "--to", str(stage.root), "--group", stage.group]
    return subprocess.Popen(
        [*command, *where, "--bootstrap", stage.kohort.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_batches_it_goes_on_with_each_record_once(stage: Stage) -> None:
    stage.send(400)
    for steps in (1, 5, 9):
        with start(stage) as process:
            assert process.stdout is not None
            assert '"started"' in process.stdout.readline()
            for _ in range(steps):
                stage.send(400)
            eventually("a batch that is being written aside", stage.is_writing, seconds=120)
            os.killpg(process.pid, signal.SIGKILL)
        found = stage.offsets()
        assert len(found) == len(set(found))
    with start(stage) as process:
        eventually("all records", stage.is_complete, seconds=120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    (table,) = status(stage.root)
    assert (table.rows, table.missing) == (stage.sent, 0)
