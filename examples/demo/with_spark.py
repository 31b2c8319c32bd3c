"""A Spark job that is a member of the same group: ``kafka.group.id`` makes it one.

    python with_spark.py BOOTSTRAP TOPIC GROUP NAME SESSION_MS

Tells what it has processed as the consumers beside it do. Spark takes a while to start, so it starts before
it is needed and then gets its orders, in lines of JSON on its standard input: ``["join"]``,
``["leave"]``, or ``["kohort", …]`` for a command of Kohort's that runs on Spark. The end of the input is
the end of it.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import kohort.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "1g"}


def start(spark: "SparkSession", arguments: list[str], checkpoint: str) -> "StreamingQuery":
    """The job."""
    bootstrap, topic, group, name, session_ms = arguments
    orders = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("kafka.group.id", group)
        .option("kafka.client.id", name)
        .option("kafka.session.timeout.ms", session_ms)
        .option("kafka.heartbeat.interval.ms", "500")
        .option("startingOffsets", "earliest")
        .option("kohort.checkpoint", checkpoint)
        .load()
    )

    def process(rows: "DataFrame", batch: int) -> None:
        tell([list(row) for row in rows.collect()])

    return (
        orders.selectExpr(
            "partition", "offset", "CAST(get_json_object(CAST(value AS STRING), '$.order') AS INT)"
        )
        .writeStream.foreachBatch(process)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="500 milliseconds")
        .start()
    )


def end_if_it_fails(query: "StreamingQuery") -> None:
    """A process without its query is of no use; its parent reads the last line of its errors."""
    try:
        query.awaitTermination()
    except Exception as error:
        print(str(error).splitlines()[0], file=sys.stderr, flush=True)
        os._exit(1)


def tell(document: Any) -> None:  # noqa: ANN401 - any JSON
    print(json.dumps(document), flush=True, file=sys.__stdout__)


def run_command(arguments: list[str]) -> dict[str, object]:
    """A command as if it were typed, in this process: Spark is here already."""
    from kohort.cli.app import command_line

    with (
        contextlib.redirect_stdout(io.StringIO()) as printed,
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        code = command_line(arguments[:1])(arguments, standalone_mode=False)
    return {"printed": printed.getvalue() + (errors.getvalue() if code else ""), "code": code}


def main(arguments: list[str]) -> None:
    spark = kohort.spark.session("demo", conf=QUIET)
    spark.sql("SELECT 1").collect()
    tell({"ready": True})
    query = None
    with tempfile.TemporaryDirectory() as checkpoint:
        for line in sys.stdin:
            match json.loads(line):
                case ["join"]:
                    query = start(spark, arguments, checkpoint)
                    threading.Thread(target=end_if_it_fails, args=[query], daemon=True).start()
                case ["leave"] if query is not None:
                    kohort.spark.drain(query)
                    tell({"left": True})
                case ["kohort", *command]:
                    tell(run_command(command))


if __name__ == "__main__":
    main(sys.argv[1:])
