"""Copy a topic into a database table, each record once, whatever is repeated.

    python examples/exactly_once_table.py TOPIC FILE.sqlite --group ID --checkpoint DIRECTORY [--once]

Spark replays a batch after a crash, and a group delivers again what a member had not committed. Neither
shows here: (topic, partition, offset) names a record for ever and is the table's primary key, and a batch
is one transaction that ignores what is there already. The same works with every database that has primary
keys; SQLite needs no server.

Start a second one with the same group, the same file and another checkpoint: they share the partitions.
Needs ``pip install 'kohort[spark]'``.
"""

import argparse
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import kohort.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TABLE = """
CREATE TABLE IF NOT EXISTS records (
    topic TEXT, "partition" INTEGER, "offset" INTEGER, "key" BLOB, value BLOB, timestamp TEXT,
    PRIMARY KEY (topic, "partition", "offset")
) WITHOUT ROWID
"""
INSERT = "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?)"
COLUMNS = ("topic", "partition", "offset", "key", "value", "CAST(timestamp AS STRING)")


@dataclass(frozen=True)
class Copy:
    """What goes where. Each query has a checkpoint of its own; the group and the table may be shared."""

    bootstrap: str
    topic: str
    group: str
    table: str
    checkpoint: str


def store(rows: "DataFrame", table: str) -> int:
    """Insert rows in one transaction; how many of them were new."""
    with closing(sqlite3.connect(table, timeout=60)) as database, database:
        database.execute(TABLE)
        before = database.total_changes
        database.executemany(INSERT, (tuple(row) for row in rows.toLocalIterator()))
        return database.total_changes - before


def start(spark: "SparkSession", copy: Copy, *, once: bool) -> "StreamingQuery":
    """The running query, a member of its group."""
    records = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", copy.bootstrap)
        .option("subscribe", copy.topic)
        .option("kafka.group.id", copy.group)
        .option("startingOffsets", "earliest")
        .option("kohort.checkpoint", copy.checkpoint)
        .load()
        .selectExpr(*COLUMNS)
    )

    def land(rows: "DataFrame", batch: int) -> None:
        print(f"batch {batch}: {store(rows, copy.table)} new records")

    writer = records.writeStream.foreachBatch(land).option("checkpointLocation", copy.checkpoint)
    return (writer.trigger(availableNow=True) if once else writer).start()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Copy a topic into a table of SQLite, each record once.")
    parser.add_argument("topic")
    parser.add_argument("table", metavar="FILE")
    parser.add_argument("--group", required=True, metavar="ID")
    parser.add_argument("--checkpoint", required=True, metavar="DIRECTORY")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--once", action="store_true")
    given = parser.parse_args(arguments)
    copy = Copy(given.bootstrap, given.topic, given.group, given.table, given.checkpoint)
    start(kohort.spark.session("exactly-once"), copy, once=given.once).awaitTermination()


if __name__ == "__main__":
    main()
