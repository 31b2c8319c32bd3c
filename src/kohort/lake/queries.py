"""SQL over a lake."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.lake.schemas import TABLES, VIEWS
from kohort.lake.store import Lake
from kohort.spark.pipelines.queries import QueryError, what_is_wrong

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ask(spark: "SparkSession", root: Path, sql: str, limit: int) -> tuple[Sequence[str], list[list[Any]]]:
    """The columns, and up to ``limit`` rows of values that JSON has. Raises QueryError."""
    from pyspark.errors import PySparkException

    Lake.existing(root).views(spark)
    try:
        frame = spark.sql(sql)
        return frame.columns, [[plain(value) for value in row] for row in frame.limit(limit).collect()]
    except PySparkException as error:
        raise QueryError(
            what_is_wrong(str(error)), hint=f"the tables are {', '.join((*TABLES, *VIEWS))}"
        ) from error


def plain(value: Any) -> Any:  # noqa: ANN401  # any value of any column
    """Times as ISO text in UTC, bytes as hex, structs as objects."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()  # Spark gives the time of this machine's zone, without it
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if hasattr(value, "asDict"):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value
