"""A job of Spark's own Kafka connector, moved to Kohort's: the format changes, everything else stays.

    python examples/migrate_connector_job.py TOPIC --to DIRECTORY --checkpoint NEW --old-checkpoint OLD

``--old-checkpoint`` is the checkpoint of the job as it ran with ``format("kafka")``. Its offsets become the
``startingOffsets`` of the new query, which goes on with the next record. Without it the job starts at the
beginning. ``--to`` is a new directory: with a new checkpoint, a file sink takes batches of the old one for
written. ``--format kafka`` runs the job as it was (that needs Maven's
``org.apache.spark:spark-sql-kafka-0-10_2.13``). What else there is to know is in examples/README.md. Needs
``pip install 'kohort[spark]'``.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import kohort.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def offsets_of(checkpoint: Path) -> str:
    """Where a query has come to, as ``startingOffsets`` has it.

    Only a batch that is in ``commits`` has been finished. One that is in ``offsets`` alone was planned, and
    perhaps written in part: it is read again, as a restart of the old job would have done.
    """
    finished = [int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    if not finished:
        raise SystemExit(f"no batch of {checkpoint} was ever finished: leave --old-checkpoint out")
    version, _, *sources = (checkpoint / "offsets" / str(max(finished))).read_text().splitlines()
    if version != "v1" or len(sources) != 1:
        raise SystemExit(
            f"{checkpoint} is of a query with {len(sources)} sources: its offsets need a look by hand"
        )
    return json.dumps(json.loads(sources[0]), sort_keys=True)


def start(
    spark: "SparkSession", source: str, options: Mapping[str, str], to: str, checkpoint: str
) -> "StreamingQuery":
    """The job. ``source`` is "kafka" or "kohort"; nothing below knows which."""
    orders = spark.readStream.format(source).options(**options).load()
    return (
        orders.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset", "timestamp")
        .writeStream.format("parquet")
        .option("path", to)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A connector's job, with either connector.")
    parser.add_argument("topic")
    parser.add_argument("--to", required=True, metavar="DIRECTORY")
    parser.add_argument("--checkpoint", required=True, metavar="DIRECTORY")
    parser.add_argument("--old-checkpoint", type=Path, metavar="DIRECTORY")
    parser.add_argument(
        "--group", metavar="ID", help="be a member of this group: lag is visible to everybody"
    )
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--format", default="kohort", choices=("kohort", "kafka"))
    given = parser.parse_args(arguments)
    options = {
        "kafka.bootstrap.servers": given.bootstrap,
        "subscribe": given.topic,
        "startingOffsets": offsets_of(given.old_checkpoint) if given.old_checkpoint else "earliest",
    }
    if given.group:
        options |= {"kafka.group.id": given.group, "kohort.checkpoint": given.checkpoint}
    spark = kohort.spark.session("migrated")
    start(spark, given.format, options, given.to, given.checkpoint).awaitTermination()


if __name__ == "__main__":
    main()
