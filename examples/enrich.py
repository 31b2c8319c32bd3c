"""Read orders from one topic, join them with customers from another, write the result to a third.

    python examples/enrich.py --orders orders --customers customers --to enriched --checkpoint DIRECTORY

Values are JSON: ``{"order": 7, "customer": "alice", "total": 12.5}`` and, with the name as key, ``{"city":
"Graz"}``. Of a customer the newest record counts, and customers are read again in every micro-batch. An
order of an unknown customer goes on without a city. ``--once`` ends when everything there is has been
written; otherwise it runs until Ctrl-C. Needs ``pip install 'kohort[spark]'``.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import kohort.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ORDER = "order bigint, customer string, total double"
CUSTOMER = "city string"


@dataclass(frozen=True)
class EnrichTopics:
    """Where records come from and go to."""

    bootstrap: str
    orders: str
    customers: str
    enriched: str


def newest(customers: "DataFrame") -> "DataFrame":
    """The last record of each key: all of a key are in one partition, so offsets tell which that is."""
    from pyspark.sql import functions as f

    latest = customers.groupBy("key").agg(f.max_by("value", "offset").alias("value"))
    fields = f.from_json(f.col("value").cast("string"), CUSTOMER)
    return latest.select(f.col("key").cast("string").alias("customer"), fields.alias("about")).select(
        "customer", "about.*"
    )


def enriched(orders: "DataFrame", customers: "DataFrame") -> "DataFrame":
    """Orders with what is known of their customers, as the sink wants them: ``key`` and ``value``."""
    from pyspark.sql import functions as f

    parsed = orders.select(f.from_json(f.col("value").cast("string"), ORDER).alias("order")).select("order.*")
    joined = parsed.join(newest(customers), "customer", "left")
    return joined.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))


def start(spark: "SparkSession", topics: EnrichTopics, checkpoint: str, *, once: bool) -> "StreamingQuery":
    """The running query."""
    brokers = {"kafka.bootstrap.servers": topics.bootstrap}
    orders = spark.readStream.format("kohort").options(
        **brokers, subscribe=topics.orders, startingOffsets="earliest"
    )

    def write(some: "DataFrame", batch: int) -> None:
        # Loaded here and not outside: a table that a stream is joined with is looked at once, when it starts.
        customers = spark.read.format("kohort").options(**brokers, subscribe=topics.customers).load()
        rows = enriched(some, customers).write.format("kohort").options(**brokers, topic=topics.enriched)
        rows.mode("append").save()

    writer = orders.load().writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if once else writer).start()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Join orders with customers, from topics to a topic.")
    parser.add_argument("--orders", default="orders", metavar="TOPIC")
    parser.add_argument("--customers", default="customers", metavar="TOPIC")
    parser.add_argument("--to", default="enriched", metavar="TOPIC")
    parser.add_argument("--checkpoint", required=True, metavar="DIRECTORY")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--once", action="store_true")
    given = parser.parse_args(arguments)
    topics = EnrichTopics(given.bootstrap, given.orders, given.customers, given.to)
    start(kohort.spark.session("enrich"), topics, given.checkpoint, once=given.once).awaitTermination()


if __name__ == "__main__":
    main()
