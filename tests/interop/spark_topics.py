"""Topics of a broker as Spark sees them, by our format and by that of Spark's own connector."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tests.interop.targets import Target

from kohort.client.admin import AsyncAdmin
from kohort.client.admin.results import NewTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

T = TypeVar("T")
OURS, SPARKS = "kohort", "kafka"
LONG = 90
Row = tuple[Any, ...]


class Table(NamedTuple):
    """What a query gave; the rows by topic, partition and offset."""

    schema: "StructType"
    rows: list[Row]


class Topics:
    """One broker and one Spark."""

    def __init__(self, spark: "SparkSession", target: Target) -> None:
        self.spark = spark
        self.target = target

    def ask(self, question: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
        """Of an administrator."""

        async def work() -> T:
            async with AsyncAdmin(self.target.bootstrap) as admin:
                return await question(admin)

        return asyncio.run(work())

    def make(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> str:
        wanted = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=configs or {})
        self.ask(lambda admin: admin.create_topic(wanted))
        return name

    def read(self, form: str, topics: str, **options: str) -> Table:
        """A batch query; options by their names, with ``__`` for a dot."""
        frame = self.spark.read.format(form).options(**self._named(options), subscribe=topics).load()
        return Table(frame.schema, _sorted(frame))

    def stream(self, form: str, topics: str, **options: str) -> "DataFrame":
        reader = self.spark.readStream.format(form).options(**self._named(options), subscribe=topics)
        return reader.load()

    def write(self, form: str, frame: "DataFrame", topic: str, **options: str) -> None:
        frame.write.format(form).options(**self._named(options), topic=topic).mode("append").save()

    def write_stream(self, form: str, frame: "DataFrame", topic: str, checkpoint: Path) -> None:
        """Until what is there is written."""
        sink = frame.writeStream.format(form).options(**self._named({}), topic=topic)
        finish(sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())

    def land(self, frame: "DataFrame", place: Path) -> "StreamingQuery":
        """Add what is there of a stream to files; ``landed`` reads them."""
        sink = frame.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
        query = sink.trigger(availableNow=True).start(str(place / "rows"))
        finish(query)
        return query

    def landed(self, place: Path) -> list[Row]:
        return _sorted(self.spark.read.parquet(str(place / "rows")))

    def _named(self, options: Mapping[str, str]) -> dict[str, str]:
        given = {name.replace("__", "."): value for name, value in options.items()}
        return {"kafka.bootstrap.servers": self.target.bootstrap} | given


def _sorted(frame: "DataFrame") -> list[Row]:
    columns = [name for name in ("topic", "partition", "offset") if name in frame.columns]
    return [tuple(row) for row in sorted(frame.collect(), key=lambda row: [row[name] for name in columns])]


def finish(query: "StreamingQuery") -> None:
    """Until a query that ends has ended; raises what it failed with."""
    assert query.awaitTermination(LONG)
