"""SQL over an archive: each table is a view that is named as its topic."""

from collections.abc import Sequence
from pathlib import Path

from kohort.model.errors import KohortError
from kohort.spark.pipelines.json_shape import quoted
from kohort.spark.pipelines.table import recover_all, tables


class QueryError(KohortError):
    """Spark does not understand the query."""


def ask(root: Path, query: str, limit: int) -> tuple[Sequence[str], list[list[str]]]:
    """The names of the columns, and up to ``limit`` rows as text. Raises QueryError."""
    from pyspark.errors import PySparkException

    from kohort.spark.sessions import session

    opened = tables(root)
    recover_all(opened)
    spark = session("kohort sql", conf={"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"})
    try:
        for table in opened:
            for path in (table.path, table.bad_path):
                if any(date.startswith(f"{path}/") for date in table.dates()):
                    spark.read.parquet(str(root / path)).createOrReplaceTempView(quoted(path))
        frame = spark.sql(query)
        return frame.columns, [[_shown(value) for value in row] for row in frame.limit(limit).collect()]
    except PySparkException as error:
        raise QueryError(str(error).splitlines()[0]) from error
    finally:
        spark.stop()


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)
