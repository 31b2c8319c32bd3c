"""Spark finds ``.format("kohort")`` by the name of this package."""

from kohort.spark.source import KohortDataSource


class DefaultSource(KohortDataSource):
    """The data source; see ``docs/reference/spark-options.md``."""
