"""A driver that can be killed: a query of a group, into rows keyed by batch, until it is told to end.

    python tests/spark/group_job.py BOOTSTRAP TOPIC GROUP ROOT [OPTION=VALUE ...]

Rows go to ``ROOT/rows``, the checkpoint to ``ROOT/checkpoint``; the same ROOT again is a restart. Says
``running`` when the query has started; a line on standard input drains it, and ``drained`` is the last word.
``rows_of`` reads what a driver has written, whether or not it is still alive.
"""

import sys
from pathlib import Path

from kohort.spark.group_drain import drain
from kohort.spark.sessions import TEST_CONF, session


def main(bootstrap: str, topic: str, group: str, root: str, *more: str) -> None:
    """Run until a line comes in."""
    spark = session("group job", master="local[1,4]", conf=TEST_CONF)
    source = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("kafka.group.id", group)
        .option("startingOffsets", "earliest")
        .option("kohort.checkpoint", f"{root}/checkpoint")
        .options(**dict(one.split("=", 1) for one in more))
        .load()
    )
    query = (
        source.select("topic", "partition", "offset")
        .writeStream.format("parquet")
        .option("path", f"{root}/rows")
        .option("checkpointLocation", f"{root}/checkpoint")
        .start()
    )
    print("running", flush=True)
    sys.stdin.readline()
    drain(query)
    print("drained", flush=True)
    spark.stop()


def rows_of(root: Path) -> list[tuple[str, int, int]]:
    """What a driver's query has written, by the metadata of Spark's file sink: finished batches alone."""
    import json
    from importlib import import_module
    from typing import Any

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
