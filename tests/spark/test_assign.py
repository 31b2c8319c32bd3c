"""Streams without membership in Spark: checkpoints, limits, topics that change."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort import Producer
from kohort.client.admin import AsyncAdmin
from kohort.spark.lookup import Lookup
from kohort.spark.offsets import topic_partition
from kohort.spark.options import parse_source_options
from kohort.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
LONG = 100


class Stage:
    """A topic, a query that reads it into files, and its checkpoint."""

    def __init__(self, spark: "SparkSession", broker: Broker, place: Path, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self._spark = spark
        self._place = place
        self.batches = 0

    def feed(self, count: int, partition: int = 0) -> None:
        with Producer(bootstrap_servers=self.broker.bootstrap) as producer:
            for number in range(count):
                producer.send(self.topic, b"x%d" % number, partition=partition)
            producer.flush()

    def run(self, **options: str) -> list[tuple[int, int]]:
        """Read what is there; partition and offset of every row that was ever written."""
        named = {"kafka.bootstrap.servers": self.broker.bootstrap, "startingOffsets": "earliest"} | options
        stream = self._spark.readStream.format("kohort").options(**named, subscribe=self.topic)
        query = (
            stream.load()
            .select("partition", "offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._place / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self._place / "rows"))
        )
        assert query.awaitTermination(LONG)
        self.batches = sum(1 for each in query.recentProgress if each.numInputRows)
        rows = self._spark.read.parquet(str(self._place / "rows")).collect()
        return sorted((row.partition, row.offset) for row in rows)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(configs={"num.partitions": 2}) as started:
        yield started


@pytest.fixture
def stage(spark: "SparkSession", broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    return Stage(spark, broker, tmp_path, f"{request.node.name}"[:80])


def first(count: int, partition: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(count)]


def test_a_restarted_query_goes_on_from_its_checkpoint_and_sees_new_partitions(stage: Stage) -> None:
    stage.feed(25)
    assert stage.run(maxOffsetsPerTrigger="10") == first(25)
    assert stage.batches == 3, "limited to ten each"
    stage.feed(5, partition=1)
    _grow(stage, 3)
    stage.feed(4, partition=2)
    assert stage.run() == first(25) + first(5, partition=1) + first(4, partition=2)
    assert stage.batches == 1


def test_a_group_hears_of_the_last_batch_as_well(stage: Stage) -> None:
    stage.feed(6)
    group = {"kafka.group.id": stage.topic, "commit": "group"}
    assert stage.run(**group) == first(6)
    options = parse_source_options(
        {"kafka.bootstrap.servers": stage.broker.bootstrap, "subscribe": stage.topic} | group, streaming=True
    )
    lookup = Lookup(options)
    assert lookup.committed(lookup.partitions()) == {
        topic_partition(stage.topic, 0): 6,
        topic_partition(stage.topic, 1): 0,
    }
    lookup.close()


def _administer(stage: Stage, question: Callable[[AsyncAdmin], Coroutine[Any, Any, object]]) -> None:
    async def ask() -> None:
        async with AsyncAdmin(stage.broker.bootstrap) as admin:
            await question(admin)

    asyncio.run(ask())


def _grow(stage: Stage, partitions: int) -> None:
    _administer(stage, lambda admin: admin.create_partitions({stage.topic: partitions}))


def test_a_stream_with_an_end_fails_with_our_sentence_alone(stage: Stage) -> None:
    with pytest.raises(Exception, match="endingOffsets cannot be set here") as refused:
        stage.run(endingOffsets="latest")
    assert "UnboundLocalError" not in str(refused.value)
