"""A stream source in Python that does nothing: what Spark itself takes for a micro-batch of any such source.

It has the columns of ours, knows its records beforehand, and asks no broker. Workers import it by its name,
so it is only found where the driver was started in the root of the repository.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from pyarrow import lib as pa
    from pyspark.sql.types import StructType

Place = dict[str, int]


class FloorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """So many micro-batches of one record."""

    def __init__(self, batches: int) -> None:
        self._batches = batches

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        return ReadMaxRows(1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        pass

    def initialOffset(self) -> Place:  # noqa: N802  (Spark's name)
        return {"at": 0}

    def latestOffset(self, start: Place, limit: ReadLimit) -> Place:  # noqa: N802  (Spark's name)
        return {"at": min(start["at"] + 1, self._batches)}

    def partitions(self, start: Place, end: Place) -> Sequence[InputPartition]:
        return [InputPartition(start["at"])]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        import numpy as np
        from pyarrow import lib as pa

        from kohort.records.columns.arrow import schema

        fields = schema(("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"))
        text = [None, pa.py_buffer(np.array([0, 4], np.int32)), pa.py_buffer(b"text")]
        number = [None, pa.py_buffer(np.zeros(1, np.int64))]
        kinds = [text if field.type in (pa.binary(), pa.string()) else number for field in fields]
        arrays = [
            pa.Array.from_buffers(field.type, 1, kind) for field, kind in zip(fields, kinds, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=fields)


class Floor(DataSource):
    """``.format("floor").option("batches", n)``"""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
            "timestampType int"
        )

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        return FloorReader(int(self.options["batches"]))
