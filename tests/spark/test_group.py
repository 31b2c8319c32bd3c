"""Real queries that are members of a group."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.clients.waiting import eventually
from tests.spark.group_stage import QUICK, Stage, all_offsets

from kohort.model.topics import TopicPartition
from kohort.spark.group.drain import drain
from kohort.spark.offsets import topic_partition
from kohort.testing.intercept import Rule, watch
from kohort.testing.plugin import Kohort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.slow


class Queries:
    """Queries of one topic into Parquet, each with its own place under ``root``."""

    def __init__(self, spark: "SparkSession", stage: Stage, root: Path) -> None:
        self._spark = spark
        self._stage = stage
        self._root = root
        self.running: list[StreamingQuery] = []

    def start(self, name: str, *, ends: bool = False) -> "StreamingQuery":
        """A query that runs on, or one that ends with what is there."""
        stage, checkpoint = self._stage, self._root / name / "checkpoint"
        source = (
            self._spark.readStream.format("kohort")
            .options(**QUICK)
            .option("kafka.bootstrap.servers", stage.kohort.bootstrap)
            .option("subscribe", stage.topic)
            .option("kafka.group.id", stage.group)
            .option("startingOffsets", "earliest")
            .option("kohort.checkpoint", str(checkpoint))
            .load()
        )
        sink = source.select("topic", "partition", "offset").writeStream.format("parquet")
        sink = sink.option("path", str(self._root / name / "rows")).option(
            "checkpointLocation", str(checkpoint)
        )
        query = (sink.trigger(availableNow=True) if ends else sink).start()
        self.running.append(query)
        return query

    def rows(self, *names: str) -> list[tuple[TopicPartition, int]]:
        """What the queries of these names have written, sorted."""
        found = [self._spark.read.parquet(str(self._root / name / "rows")).collect() for name in names]
        return sorted((topic_partition(row[0], row[1]), row[2]) for rows in found for row in rows)


@pytest.fixture
def stage(kohort: Kohort) -> Stage:
    return Stage(kohort)


@pytest.fixture
def queries(spark: "SparkSession", stage: Stage, tmp_path: Path) -> Iterator[Queries]:
    made = Queries(spark, stage, tmp_path)
    yield made
    for query in made.running:
        query.stop()


def test_a_query_that_ends_has_committed_all_it_read_and_left(stage: Stage, queries: Queries) -> None:
    left = stage.kohort.broker.intercept(watch, api="LeaveGroup", group=stage.group)
    stage.write(20)
    query = queries.start("a", ends=True)
    assert query.awaitTermination(120)
    assert stage.committed() == stage.everywhere(20)
    until(query, "the member to leave", lambda: has_seen(left, stage))
    stage.write(5)
    query = queries.start("a", ends=True)
    assert query.awaitTermination(120)
    assert stage.committed() == stage.everywhere(25)
    assert queries.rows("a") == all_offsets(stage.everywhere(25))
    progress = query.lastProgress
    assert progress is not None
    assert progress["sources"][0]["numInputRows"] == 15
    assert stage.topic in str(progress["sources"][0]["latestOffset"])


def test_two_queries_in_a_group_hand_over_and_read_each_record_once(stage: Stage, queries: Queries) -> None:
    left = stage.kohort.broker.intercept(watch, api="LeaveGroup", group=stage.group)
    stage.write(10)
    first = queries.start("first")
    until(first, "the first to commit", lambda: stage.committed() == stage.everywhere(10))
    second = queries.start("second")
    until(second, "both to have partitions", lambda: len(owners(stage)) == 2)
    stage.write(10)
    until(second, "both to commit", lambda: stage.committed() == stage.everywhere(20))
    drain(first)
    assert not first.isActive
    until(second, "the first to leave", lambda: has_seen(left, stage))
    stage.write(10)
    until(second, "the second to have it all", lambda: stage.committed() == stage.everywhere(30))
    second.stop()
    assert queries.rows("first", "second") == all_offsets(stage.everywhere(30))


def until(query: "StreamingQuery", wanted: str, holds: Callable[[], bool]) -> None:
    """Ask now and then, and leave the machine to Spark in between; a query that fails says why."""

    def has_come() -> bool:
        return holds() or bool(query.awaitTermination(1) and holds())

    eventually(wanted, has_come, 90)


def has_seen(rule: Rule, stage: Stage) -> bool:
    return bool(rule.seen) or not stage.committed()  # asks the broker: time to breathe


def owners(stage: Stage) -> dict[str, object]:
    """The members that have partitions, while the group is stable."""
    described = stage.ask(lambda admin: admin.describe_groups([stage.group]))
    found = next(iter(described.values()))
    assert not isinstance(found, BaseException)
    return {one.member_id: one for one in found.members if one.assignment}
