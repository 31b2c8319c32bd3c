"""Count the words of a topic into Parquet files.

    python examples/wordcount.py TOPIC DIRECTORY [--bootstrap HOST:PORT]

Reads what is there, writes all counts to DIRECTORY/words, and ends. Run it again when there is more: it
goes on from its checkpoint, reads only what is new, and replaces the counts. Needs ``pip install
'kohort[spark]'``.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import kohort.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def words(lines: "DataFrame") -> "DataFrame":
    """How often each word is in the values."""
    from pyspark.sql import functions as f

    split = f.split(f.lower(f.col("value").cast("string")), r"\W+")
    return lines.select(f.explode(split).alias("word")).where("word <> ''").groupBy("word").count()


def count(spark: "SparkSession", bootstrap: str, topic: str, directory: Path) -> None:
    """Bring DIRECTORY/words up to date with the topic."""
    lines = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )

    def write(counts: "DataFrame", batch: int) -> None:
        counts.coalesce(1).write.mode("overwrite").parquet(str(directory / "words"))

    query = (
        words(lines)
        .writeStream.outputMode("complete")
        .foreachBatch(write)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Count the words of a topic into Parquet files.")
    parser.add_argument("topic")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    given = parser.parse_args(arguments)
    spark = kohort.spark.session("wordcount")
    count(spark, given.bootstrap, given.topic, given.directory)
    spark.read.parquet(str(given.directory / "words")).orderBy("count", ascending=False).show()


if __name__ == "__main__":
    main()
