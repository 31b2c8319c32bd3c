"""A driver that can be killed: a query of a group, into rows keyed by batch, under orders from its parent.

    python tests/spark/group_job.py BOOTSTRAP TOPIC GROUP ROOT [OPTION=VALUE ...]

Rows go to ``ROOT/rows``, the checkpoint to ``ROOT/checkpoint``; the same ROOT again is a restart. It answers
each line of standard input with one word: ``start`` with ``running``, ``stop`` with ``stopped``, ``drain``
with ``drained``. The end of the input ends it. ``rows_of`` reads what a driver has written, whether or not
it is still alive.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.spark.group.drain import drain
from kohort.spark.sessions import TEST_CONF, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def main(bootstrap: str, topic: str, group: str, root: str, *more: str) -> None:
    """Run until there are no more orders."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "kafka.group.id": group,
        "startingOffsets": "earliest",
        "kohort.checkpoint": f"{root}/checkpoint",
        **dict(one.split("=", 1) for one in more),
    }
    spark = session("group job", master="local[1,4]", conf={**TEST_CONF, "spark.driver.memory": "512m"})
    query: StreamingQuery | None = None
    for order in map(str.strip, sys.stdin):
        if order == "start":
            query = _start(spark, options, root)
            print("running", flush=True)
            continue
        assert query is not None, order
        if order == "drain":
            drain(query)
            print("drained", flush=True)
        elif order == "stop":
            query.stop()
            print("stopped", flush=True)
    spark.stop()


def _start(spark: "SparkSession", options: dict[str, str], root: str) -> "StreamingQuery":
    return (
        spark.readStream.format("kohort")
        .options(**options)
        .load()
        .select("topic", "partition", "offset")
        .writeStream.format("parquet")
        .option("path", f"{root}/rows")
        .option("checkpointLocation", f"{root}/checkpoint")
        .trigger(processingTime="500 milliseconds")  # leaves something of the machine to the others
        .start()
    )


def rows_of(root: Path) -> list[tuple[str, int, int]]:
    """What a driver's query has written, by the metadata of Spark's file sink: finished batches alone."""
    parquet: Any = import_module("pyarrow.parquet")
    log = root / "rows" / "_spark_metadata"
    batches = [path for path in log.iterdir() if path.name.split(".")[0].isdecimal()] if log.is_dir() else []
    paths = {
        Path(json.loads(line)["path"].removeprefix("file://"))
        for batch in batches
        for line in batch.read_text().splitlines()[1:]
    }
    tables = [parquet.ParquetFile(path).read() for path in sorted(paths)]
    return sorted(
        (row["topic"], row["partition"], row["offset"]) for table in tables for row in table.to_pylist()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
