"""A Spark job and a kafka-python service in one consumer group: they divide the partitions between them.

    python examples/shared_group.py service orders --group billing
    python examples/shared_group.py job orders --group billing --checkpoint DIRECTORY --to DIRECTORY

Start them in two terminals, in any order and number; ``kohort groups describe billing`` shows who has what.
The service handles single records as they come; the job lands its share in Parquet. Stop one with Ctrl-C,
and the other has all partitions, at the offsets the first has committed. All members of a group do the same
work in the end, so both sides must be able to do it: here each keeps its records.

Needs ``pip install 'kohort[spark]' kafka-python``.
"""

import argparse
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kohort.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Handle = Callable[[Any], None]  # is given records of kafka-python, which has no types


@dataclass(frozen=True)
class Share:
    """Which topic, as a member of which group."""

    bootstrap: str
    topic: str
    group: str


def serve(share: Share, handle: Handle, stopping: threading.Event) -> None:
    """The service: poll, handle, commit, until it has to stop; then leave the group."""
    import kafka

    consumer: Any = kafka.KafkaConsumer(  # type: ignore[no-untyped-call]  # kafka-python has no types
        share.topic,
        bootstrap_servers=share.bootstrap,
        group_id=share.group,
        client_id="service",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    with closing(consumer):
        while not stopping.is_set():
            # Not less than a second: kafka-python drops the answer to a join that comes between two polls.
            batches = consumer.poll(timeout_ms=1_000)
            for record in (record for records in batches.values() for record in records):
                handle(record)
            if batches:
                consumer.commit()  # after the work, never before: then nothing is lost


def start_job(spark: "SparkSession", share: Share, checkpoint: str, to: str) -> "StreamingQuery":
    """The job: the same group, and that is all there is to it."""
    records = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", share.bootstrap)
        .option("subscribe", share.topic)
        .option("kafka.group.id", share.group)
        .option("kafka.client.id", "job")
        .option("startingOffsets", "earliest")
        .option("kohort.checkpoint", checkpoint)  # so that a stop can commit the last batch
        .load()
    )
    return (
        records.select("partition", "offset", "key", "value")
        .writeStream.format("parquet")
        .option("path", to)
        .option("checkpointLocation", checkpoint)
        .start()
    )


def run_job(share: Share, checkpoint: str, to: str) -> None:
    """Until Ctrl-C; then finish the batch, commit, leave."""
    query = start_job(kohort.spark.session("shared-group"), share, checkpoint, to)
    stopping = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopping.set())  # Spark's own handler would cancel the batch
    while not stopping.is_set():
        if query.awaitTermination(1):
            return
    kohort.spark.drain(query)


def run_service(share: Share) -> None:
    """Until Ctrl-C."""
    try:
        serve(share, lambda record: print(record.partition, record.offset, record.value), threading.Event())
    except KeyboardInterrupt:
        print("left the group")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Share a group between a Spark job and a service.")
    parser.add_argument("role", choices=("service", "job"))
    parser.add_argument("topic")
    parser.add_argument("--group", required=True, metavar="ID")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--checkpoint", default="shared-group/checkpoint", metavar="DIRECTORY")
    parser.add_argument("--to", default="shared-group/records", metavar="DIRECTORY")
    given = parser.parse_args(arguments)
    share = Share(given.bootstrap, given.topic, given.group)
    if given.role == "service":
        run_service(share)
    else:
        run_job(share, given.checkpoint, given.to)


if __name__ == "__main__":
    main()
