"""Batch queries: ranges of offsets that are fixed when the query is planned."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kohort.model.topics import TopicPartition
from kohort.spark import planning
from kohort.spark.errors import DataLossError, OptionError
from kohort.spark.lookup import Lookup
from kohort.spark.offsets import FromGroup, OffsetRange, Offsets
from kohort.spark.options import SourceOptions
from kohort.spark.positions import resolve
from kohort.spark.tasks import RangePartition, read_ranges, task_shares

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
        return task_shares(options, self.prune(planned))

    def prune(self, planned: list[OffsetRange]) -> list[OffsetRange]:
        """What is left when filters are taken into account; all of it here."""
        return planned

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if not isinstance(partition, RangePartition):
            return iter(())  # Spark makes a partition of its own where none was planned
        return read_ranges(self._options, partition)


def plan(options: SourceOptions, lookup: Lookup) -> list[OffsetRange]:
    """The whole range of each partition, as far as its records are there."""
    partitions = lookup.partitions()
    starts = resolve(options.starting, partitions, lookup, reset=options.offset_reset)
    ends = resolve(options.ending, partitions, lookup, reset=options.offset_reset)
    first, last = lookup.log_starts(partitions), lookup.log_ends(partitions)
    for where in [where for where, start in starts.items() if start > ends[where]]:
        if starts[where] > last[where]:
            what = f"{where} is wanted from offset {starts[where]}, and the log ends at {last[where]}"
            _lose(options, what, "nothing of it")
        elif not isinstance(options.starting, FromGroup):  # a group may be past the end that is asked for
            raise _ends_before_it_starts(where, starts[where], ends[where])
    wanted = planning.ranges(starts, ends)
    there = [_clip(one, first, last) for one in wanted]
    lost = [(one, left) for one, left in zip(wanted, there, strict=True) if one != left]
    for one, left in lost:
        what = f"{one} is wanted, and the log has [{first[one.where]}, {last[one.where]})"
        _lose(options, what, str(left))
    return [one for one in there if one.size > 0]


def _lose(options: SourceOptions, what: str, left: str) -> None:
    if options.fail_on_data_loss:
        raise DataLossError(what)
    _log.warning("%s; reading %s", what, left)


def _ends_before_it_starts(where: TopicPartition, start: int, end: int) -> OptionError:
    return OptionError(
        f"{where} is to be read from offset {start} to {end}, which is before it",
        hint="the ending offsets must not be before the starting offsets",
    )


def _clip(wanted: OffsetRange, first: Offsets, last: Offsets) -> OffsetRange:
    start = max(wanted.start, first[wanted.where])
    return wanted._replace(start=start, end=max(start, min(wanted.end, last[wanted.where])))
