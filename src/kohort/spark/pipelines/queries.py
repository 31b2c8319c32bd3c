"""SQL over an archive: each table is a view that is named as its topic."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.model.errors import KohortError
from kohort.spark.pipelines.json_shape import quoted
from kohort.spark.pipelines.table import recover_all, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueryError(KohortError):
    """Spark does not understand the query."""


def ask(root: Path, query: str, limit: int) -> tuple[Sequence[str], list[list[str]]]:
    """The names of the columns, and up to ``limit`` rows as text. Raises QueryError: it names the tables."""
    from pyspark.errors import PySparkException

    from kohort.spark.sessions import session

    opened = tables(root)
    recover_all(opened)
    paths = sorted({date.rpartition("/")[0] for table in opened for date in table.dates()})
    spark = session("kohort sql", conf={"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"})
    _say_it_once(spark)
    try:
        for path in paths:
            spark.read.option("mergeSchema", "true").parquet(str(root / path)).createOrReplaceTempView(
                quoted(path)
            )
        frame = spark.sql(query)
        return frame.columns, [[_shown(value) for value in row] for row in frame.limit(limit).collect()]
    except PySparkException as error:
        named = ", ".join(map(quoted, paths))
        raise QueryError(what_is_wrong(str(error)), hint=f"the tables are {named or 'none'}") from error
    finally:
        spark.stop()


def what_is_wrong(text: str) -> str:
    """What Spark says of a query, without its stack traces; a mark shows where a syntax error is."""
    message = text.partition("JVM stacktrace:")[0].strip()
    first, _, rest = message.partition("\n")
    query = rest.partition("== SQL ==")[2].strip("\n")
    return f"{first}\n{query}\n" if "^^^" in query else first


def _say_it_once(spark: "SparkSession") -> None:
    """What is wrong with a query is in its exception: no need for stack traces before, and again as JSON."""
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").disabled = True


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)
