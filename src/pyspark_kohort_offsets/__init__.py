"""Spark finds ``.format("kohort_offsets")`` by the name of this package."""

from kohort.lake.source import OffsetsDataSource


class DefaultSource(OffsetsDataSource):
    """The data source; see ``docs/howto/group-lake.md``."""
