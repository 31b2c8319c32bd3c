"""``.format("kohort_offsets")``: ``__consumer_offsets`` as a table, from brokers or from segment files.

Imported in four of Spark's processes: everything else is imported when it is chosen.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kohort.lake.columns import DDL
from kohort.lake.segments import SegmentFile, find_segments, read_segment
from kohort.model.topics import CONSUMER_OFFSETS
from kohort.spark.batch import BatchReader
from kohort.spark.errors import OptionError
from kohort.spark.offsets import OffsetRange
from kohort.spark.options import SourceOptions, check_source_options, parse_source_options
from kohort.spark.stream import StreamReader
from kohort.spark.tasks import RangePartition, read_ranges

if TYPE_CHECKING:
    from pyarrow import lib as pa
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from kohort.client.columnar.portions import DecodeBatches

_PATH = "path"
_TOPIC = "subscribe"


class OffsetsDataSource(DataSource):
    """Every record of ``__consumer_offsets`` with its fields in columns; ``kohort.lake.columns`` has them."""

    @classmethod
    def name(cls) -> str:
        return "kohort_offsets"

    def schema(self) -> str:
        """Spark asks in ``load()``, which is the earliest moment to refuse an option."""
        if _PATH in self.options:
            _check_path_options(self.options)
        else:
            check_source_options(_with_topic(self.options))
        return DDL

    def reader(self, schema: "StructType") -> DataSourceReader:
        _check_columns(schema)
        if _PATH in self.options:
            return SegmentReader(Path(_check_path_options(self.options)))
        return _OffsetsBatch(parse_source_options(_with_topic(self.options), streaming=False))

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802  (Spark's name)
        _check_columns(schema)
        if _PATH in self.options:
            raise OptionError(
                "files of segments cannot be followed as a stream",
                hint='use spark.read, or read from a broker with "kafka.bootstrap.servers"',
            )
        return _OffsetsStream(parse_source_options(_with_topic(self.options), streaming=True))


def _with_topic(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a read of the topic; ``assign`` may name some of its partitions."""
    given = dict(options.items())
    return given if "assign" in {name.lower() for name in given} else {_TOPIC: CONSUMER_OFFSETS} | given


def _check_path_options(options: Mapping[str, str]) -> str:
    """The path; it comes alone."""
    others = [name for name in options if name != _PATH]
    if others:
        raise OptionError(
            f"{others[0]} cannot be set with a path",
            hint="files of segments are read whole, without a broker",
        )
    return options[_PATH]


def _check_columns(schema: "StructType") -> None:
    if ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields) != DDL:
        raise OptionError("the schema cannot be chosen", hint="use select() on the columns that are there")


class _OffsetsBatch(BatchReader):
    """``spark.read`` from brokers."""

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if not isinstance(partition, RangePartition):
            return iter(())  # Spark makes a partition of its own where none was planned
        return _read_ranges(self._options, partition)


class _OffsetsStream(StreamReader):
    """``spark.readStream`` from brokers."""

    def read(self, partition: RangePartition) -> "Iterator[pa.RecordBatch]":  # type: ignore[override]  # ours
        return _read_ranges(self._options, partition)


def _read_ranges(options: SourceOptions, partition: RangePartition) -> "Iterator[pa.RecordBatch]":
    from kohort.lake.decode import SegmentSlice, decode_table

    def decoder(of: OffsetRange) -> "DecodeBatches":
        return lambda table, start, end: decode_table(table, SegmentSlice(of.partition, start, end))

    return read_ranges(options, partition, decoder)


class SegmentPartition(InputPartition):
    """One task's share: a segment."""

    def __init__(self, value: SegmentFile) -> None:
        super().__init__(value)

    @property
    def segment(self) -> SegmentFile:
        return SegmentFile(*self.value)


class SegmentReader(DataSourceReader):
    """``spark.read.load(DIRECTORY)``: a task for each segment file."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def partitions(self) -> Sequence[InputPartition]:
        return [SegmentPartition(one) for one in find_segments(self._root, CONSUMER_OFFSETS)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if not isinstance(partition, SegmentPartition):
            return
        from kohort.lake.decode import SegmentSlice, decode_table

        segment = partition.segment
        for table in read_segment(segment.path):
            yield from decode_table(table, SegmentSlice(segment.partition, end=segment.end))
