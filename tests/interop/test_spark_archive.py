"""Two archives in one group, on one Kohort broker. Here for its time: two drivers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.clients.waiting import eventually
from tests.spark.archive_stage import Stage

from kohort.spark.pipelines.archive import ArchiveOptions, archive
from kohort.spark.pipelines.progress import Event, Landed, Started
from kohort.testing.plugin import Kohort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


@pytest.mark.interop
def test_two_instances_share_their_group_and_each_record_lands_once(
    spark: "SparkSession", kohort: Kohort, tmp_path: Path
) -> None:
    stage = Stage(kohort, tmp_path / "archive")
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
