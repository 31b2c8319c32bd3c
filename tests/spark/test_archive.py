"""The archive as a member of its group: replays, hand-overs and deaths, and every record there once."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.clients.waiting import eventually

from kohort.client.admin import Admin
from kohort.client.producer import Producer
from kohort.client.results import NewTopic
from kohort.spark.pipelines.archive import ArchiveOptions, PipelineError, archive
from kohort.spark.pipelines.landing import Lander
from kohort.spark.pipelines.parquet import read_columns
from kohort.spark.pipelines.progress import Ended, Event, Landed, Started
from kohort.spark.pipelines.status import status
from kohort.testing.plugin import Kohort

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Stage:
    """A topic with as many records as were sent, and the directory it is archived to."""

    def __init__(self, kohort: Kohort, root: Path) -> None:
        self.kohort = kohort
        self.root = root
        self.topic = kohort.topic(partitions=4)
        self.group = kohort.group()
        self.sent = 0

    def send(self, count: int) -> None:
        with Producer(bootstrap_servers=self.kohort.bootstrap) as producer:
            for number in range(count):
                producer.send(self.topic, b"%d" % (self.sent + number), partition=number % 4)
        self.sent += count

    def make_topic_again(self) -> None:
        async def work() -> None:
            async with Admin(self.kohort.bootstrap) as admin:
                await admin.delete_topics([self.topic])
                await admin.create_topic(NewTopic(name=self.topic, partitions=4))

        asyncio.run(work())
        self.sent = 0

    def options(self, *, once: bool = True, instance: str | None = None) -> ArchiveOptions:
        return ArchiveOptions(
            bootstrap=self.kohort.bootstrap,
            topics=self.topic,
            to=self.root,
            group=self.group,
            once=once,
            trigger_seconds=0.5,
            instance=instance,
        )

    def offsets(self) -> list[tuple[int, int]]:
        """What a reader of the table finds, sorted."""
        found: list[tuple[int, int]] = []
        for path in (self.root / self.topic).glob("date=*/*.parquet"):
            columns = read_columns(path, ("partition", "offset"))
            found += zip(columns.column(0).to_pylist(), columns.column(1).to_pylist(), strict=True)
        return sorted(found)

    def is_complete(self) -> bool:
        return self.offsets() == self.expected()

    def is_writing(self) -> bool:
        return any((self.root / "_kohort" / "_staging").rglob("*"))

    def expected(self) -> list[tuple[int, int]]:
        return [
            (partition, offset)
            for partition in range(4)
            for offset in range(len(range(partition, self.sent, 4)))
        ]


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
            run(spark, stage.options())
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


@contextmanager
def instance(spark: "SparkSession", options: ArchiveOptions) -> Iterator[list[Event]]:
    """A standing instance in a thread; brought to rest at the end of the block."""
    events: list[Event] = []
    stopping = threading.Event()
    thread = threading.Thread(target=archive, args=(options, events.append, stopping, spark), daemon=True)
    thread.start()
    try:
        yield events
    finally:
        stopping.set()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.interop  # for its time: two drivers
def test_two_instances_share_their_group_and_each_record_lands_once(
    spark: "SparkSession", stage: Stage
) -> None:
    standing = stage.options(once=False)
    stage.send(40)
    with instance(spark, standing) as first, instance(spark, standing) as second:
        for _ in range(20):
            stage.send(40)
            eventually("all records", stage.is_complete, seconds=60)
            if all(any(isinstance(event, Landed) for event in events) for events in (first, second)):
                break
    assert {events[0] for events in (first, second)} == {
        Started("1", stage.group),
        Started("2", stage.group),
    }
    assert stage.offsets() == stage.expected()


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
