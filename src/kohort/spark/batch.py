"""Batch queries: ranges of offsets that are fixed when the query is planned."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kohort.spark import planning
from kohort.spark.errors import DataLossError
from kohort.spark.lookup import Lookup
from kohort.spark.offsets import OffsetRange, Offsets
from kohort.spark.options import SourceOptions
from kohort.spark.positions import resolve
from kohort.spark.tasks import RangePartition, read_range

if TYPE_CHECKING:
    from pyarrow import lib as pa

_log = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """``spark.read.format("kohort")``."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[RangePartition]:
        options = self._options
        lookup = Lookup(options)
        try:
            planned = plan(options, lookup)
        finally:
            lookup.close()
        cut = planning.tasks(
            self.prune(planned),
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
        return [RangePartition(one) for one in cut]

    def prune(self, planned: list[OffsetRange]) -> list[OffsetRange]:
        """What is left when filters are taken into account; all of it here."""
        return planned

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if not isinstance(partition, RangePartition):
            return iter(())  # Spark makes a partition of its own where none was planned
        return read_range(self._options, partition)


def plan(options: SourceOptions, lookup: Lookup) -> list[OffsetRange]:
    """The whole range of each partition, as far as its records are there."""
    partitions = lookup.partitions()
    starts = resolve(options.starting, partitions, lookup, reset=options.offset_reset)
    ends = resolve(options.ending, partitions, lookup, reset=options.offset_reset)
    first, last = lookup.log_starts(partitions), lookup.log_ends(partitions)
    wanted = planning.ranges(starts, ends)
    there = [_clip(one, first, last) for one in wanted]
    lost = [(one, left) for one, left in zip(wanted, there, strict=True) if one != left]
    for one, left in lost:
        what = f"{one} is wanted, and the log has [{first[one.where]}, {last[one.where]})"
        if options.fail_on_data_loss:
            raise DataLossError(what)
        _log.warning("%s; reading %s", what, left)
    return [one for one in there if one.size > 0]


def _clip(wanted: OffsetRange, first: Offsets, last: Offsets) -> OffsetRange:
    start = max(wanted.start, first[wanted.where])
    return wanted._replace(start=start, end=max(start, min(wanted.end, last[wanted.where])))
