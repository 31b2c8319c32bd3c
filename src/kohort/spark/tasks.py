"""What runs in Spark's tasks: fetch a range of offsets and yield Arrow batches.

Workers are reused: connections stay open between tasks. Arrow is imported by the first one that reads.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kohort.client.columnar import ColumnOptions, ColumnReader, ReadTimeoutError
from kohort.client.errors import BrokerError, UnknownTopicError
from kohort.model.errors import ErrorCode, KohortError
from kohort.spark import planning
from kohort.spark.errors import DataLossError
from kohort.spark.lifecycle import spare_the_collector
from kohort.spark.lookup import Lookup, task_client_options
from kohort.spark.offsets import OffsetRange
from kohort.spark.options import SourceOptions

if TYPE_CHECKING:
    from pyarrow import lib as pa

    from kohort.client.columnar.portions import DecodeBatches

    DecodeRange = Callable[[OffsetRange], DecodeBatches]

_log = logging.getLogger(__name__)
_TOGETHER = 256  # ranges in a request
_readers: dict[tuple[object, ...], ColumnReader] = {}


class RangePartition(InputPartition):
    """One task's share: ranges of offsets, each of one partition."""

    def __init__(self, *ranges: OffsetRange) -> None:
        super().__init__(ranges)

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        return tuple(OffsetRange(*one) for one in self.value)


def task_shares(options: SourceOptions, planned: Iterable[OffsetRange]) -> list[RangePartition]:
    """What each task reads: large ranges are cut, small ones share a task."""
    least, most = options.min_partitions, options.max_records_per_partition
    pieces = planning.tasks(planned, min_partitions=least, max_records=most)
    at_most = min(options.task_offsets, most or options.task_offsets)
    return [RangePartition(*one) for one in planning.shares(pieces, at_most, min_partitions=least)]


def read_ranges(
    options: SourceOptions, partition: RangePartition, decoder: "DecodeRange | None" = None
) -> "Iterator[pa.RecordBatch]":
    """The records of a task's ranges, one range after the other.

    Many short ranges are fetched together: a request for each would cost more than their records.
    """
    left = list(partition.ranges)
    while len(left) > 1:
        together = left[:_TOGETHER]
        there = _reader(options).fetch_ahead(together, column_options(options))
        # What did not fit is asked for again with the next ones, but for the first: it comes in any case.
        now = [one for one in together if one.where in there or not there or one is together[0]]
        for one in now:
            yield from read_range(options, one, decoder)
        left = [one for one in together if one not in now] + left[_TOGETHER:]
    for one in left:
        yield from read_range(options, one, decoder)


def read_range(
    options: SourceOptions, wanted: OffsetRange, decoder: "DecodeRange | None" = None
) -> "Iterator[pa.RecordBatch]":
    """The records of a range, in order, with the columns of the options, or as ``decoder`` makes them.

    Records that are gone raise DataLossError, or are left out with a warning: ``fail_on_data_loss``.
    """
    spare_the_collector()
    columns = column_options(options)
    reader = _reader(options)
    decode = None if decoder is None else decoder(wanted)
    left: OffsetRange | None = wanted
    while left is not None:
        try:
            yield from reader.fetch(left.topic, left.partition, left.start, left.end, columns, decode)
        except (BrokerError, ReadTimeoutError) as error:
            left = _after_loss(options, left, error)
        else:
            return


def _after_loss(options: SourceOptions, asked: OffsetRange, error: KohortError) -> OffsetRange | None:
    """What is left of a range whose records are gone; raises other errors, and losses that must fail."""
    left = _left_of(options, asked, error)
    lost = f"cannot read {asked}: {error}"
    if options.fail_on_data_loss:
        raise DataLossError(lost) from error
    _log.warning("%s; going on at %s", lost, left.start if left else "the next range")
    return left


def _left_of(options: SourceOptions, asked: OffsetRange, error: KohortError) -> OffsetRange | None:
    if isinstance(error, UnknownTopicError):
        return None
    is_short = isinstance(error, ReadTimeoutError)
    is_outside = isinstance(error, BrokerError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE
    if not is_short and not is_outside:
        raise error
    lookup = Lookup(options, _reader(options).administer)
    start = lookup.log_starts([asked.where])[asked.where]
    end = lookup.log_ends([asked.where])[asked.where]
    if end < asked.end:
        return None  # the log was cut, and what it has of the range has been read
    if start <= asked.start or is_short:
        raise error  # all of it is there: the broker has a reason of its own
    return asked._replace(start=min(start, asked.end))


def column_options(options: SourceOptions) -> ColumnOptions:
    """How records are fetched and decoded."""
    given = options.consumer_settings
    usual = ColumnOptions()
    return ColumnOptions(
        columns=options.columns,
        rows=options.batch_rows,
        isolation_level=options.isolation_level,
        check_crcs=bool(given.get("check_crcs", usual.check_crcs)),
        max_bytes=int(str(given.get("max_partition_fetch_bytes", usual.max_bytes))),
        max_wait_ms=int(str(given.get("fetch_max_wait_ms", usual.max_wait_ms))),
    )


def _reader(options: SourceOptions) -> ColumnReader:
    key = (options.bootstrap, frozenset(options.consumer_settings.items()), options.poll_timeout_ms)
    if key not in _readers:
        _readers[key] = ColumnReader(options.bootstrap, task_client_options(options))
    return _readers[key]
