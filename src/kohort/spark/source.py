"""``.format("kohort")``: chooses the reader or writer that the options ask for.

Imported in four of Spark's processes: everything else is imported when it is chosen.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from kohort.spark.errors import OptionError
from kohort.spark.options import HEADERS, SourceOptions, check_source_options, parse_source_options

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
    )
    from pyspark.sql.types import StructType

TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}
"""The columns of Spark's own connector, in its order."""


class KohortDataSource(DataSource):
    """Topics as tables and streams, with the options and columns of Spark's Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "kohort"

    def schema(self) -> str:
        """Spark asks in ``load()``, which is the earliest moment to refuse an option."""
        columns = check_source_options(self.options).columns
        return ", ".join(f"{name} {TYPES[name]}" for name in columns)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        options = source_options(self.options, schema, streaming=False)
        if options.push_filters:
            from kohort.spark.pruning import PruningReader

            return PruningReader(options)
        from kohort.spark.batch import BatchReader

        return BatchReader(options)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        try:
            options = source_options(self.options, schema, streaming=True)
        except OptionError as error:
            return RefusedStream(error)
        if options.is_member:
            from kohort.spark.group.reader import GroupStreamReader

            return GroupStreamReader(options, schema)
        from kohort.spark.stream import StreamReader

        return StreamReader(options)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from kohort.spark.sink import BatchArrowWriter

        return BatchArrowWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802  (Spark's name)
        from kohort.spark.sink import StreamArrowWriter

        return StreamArrowWriter(self.options, schema)


class RefusedStream(DataSourceStreamReader):
    """Stands for a stream whose options are wrong, and says so when it is first asked.

    An error in ``streamReader`` itself is hidden by a second one of PySpark's, ``UnboundLocalError``.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  (Spark's name)
        raise self._error

    def latestOffset(self, *_: object) -> dict[str, object]:  # noqa: N802  (Spark's name)
        raise self._error

    def partitions(self, *_: object) -> "Sequence[InputPartition]":
        raise self._error

    def read(self, *_: object) -> "Iterator[Row]":
        raise self._error


def source_options(options: Mapping[str, str], schema: "StructType", *, streaming: bool) -> SourceOptions:
    """The options with the columns of the user's schema, which may name some of ours in any order."""
    columns = []
    for field in schema.fields:
        found = field.dataType.simpleString()
        if TYPES.get(field.name) != found or not field.nullable:
            known = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
            nullable = "" if field.nullable else " not null"
            raise OptionError(
                f"there is no column {field.name} {found}{nullable}",
                hint=f"choose from {known}, all nullable",
            )
        columns.append(field.name)
    parsed = parse_source_options(options, streaming=streaming)
    if HEADERS in columns and not parsed.include_headers:
        raise OptionError("the schema has a column headers", hint='set "includeHeaders" to "true"')
    return parsed.with_columns(tuple(columns))
