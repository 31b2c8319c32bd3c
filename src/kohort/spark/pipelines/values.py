"""What becomes of the values of records: bytes as they are, text, or columns by a schema that is kept.

Each way writes the good records of a micro-batch aside and, apart from them, the bad ones with a reason.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, assert_never

from kohort.spark.pipelines import json_shape
from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.forms import Values
from kohort.spark.pipelines.json_shape import Fields
from kohort.spark.pipelines.staging import BAD, GOOD
from kohort.spark.pipelines.table import STATE, Table

if TYPE_CHECKING:
    from pyarrow import lib as pa
    from pyspark.sql import DataFrame

SAMPLE = 1_000  # so many values of a topic's first batch decide its schema
MOST_ROWS_A_FILE = 2_000_000

_COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
_RAW = "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, "
_PLACE = "partition int, offset bigint, timestamp timestamp"


class Aside(NamedTuple):
    """Where a micro-batch is written before it lands, and with how many tasks."""

    files: LocalFiles
    directory: str
    tasks: int


def write_aside(frame: "DataFrame", values: Values, topics: Collection[str], aside: Aside) -> None:
    """Write a micro-batch of these topics, each record to one file."""
    match values:
        case Values.BINARY:
            _write(frame.select(*_COLUMNS), aside, GOOD)
        case Values.UTF8:
            _write_text(frame, aside)
        case Values.JSON:
            _write_json(frame, topics, aside)
        case _:
            assert_never(values)


def _write(frame: "DataFrame", aside: Aside, kind: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    (
        frame.withColumn("_table", F.col("topic"))
        .withColumn("date", F.to_date("timestamp"))
        .coalesce(aside.tasks)
        .sortWithinPartitions("_table", "date", "partition", "offset")
        .write.partitionBy("_table", "date")
        .option("compression", "zstd")
        .option("maxRecordsPerFile", MOST_ROWS_A_FILE)
        .mode("append")  # JSON: one topic after another
        .parquet(str(aside.files.at(f"{aside.directory}/{kind}")))
    )


def _write_text(frame: "DataFrame", aside: Aside) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    text = F.col("value").cast("string")
    reason = F.when(F.is_valid_utf8(text), None).otherwise(F.lit("not UTF-8"))
    judged = frame.select(*_COLUMNS).withColumn("reason", F.when(F.col("value").isNotNull(), reason))
    _write_judged(judged, lambda good: good.withColumn("value", text).select(*_COLUMNS), aside)


def _write_judged(judged: "DataFrame", shown: "Callable[[DataFrame], DataFrame]", aside: Aside) -> None:
    """Write the records without a reason as ``shown``, and the others, if there are any, with theirs."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    seen = Observation()
    is_bad = F.col("reason").isNotNull()
    watched = judged.observe(seen, F.count_if(is_bad).alias("bad"))
    _write(shown(watched.where(~is_bad)), aside, GOOD)
    if seen.get["bad"]:  # rarely: it takes reading the batch once more
        _write(judged.where(is_bad).select(*_COLUMNS, "reason"), aside, BAD)


# JSON


def _write_json(frame: "DataFrame", topics: Collection[str], aside: Aside) -> None:
    """Topic by topic, because each has its own columns."""
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    kept = frame.persist() if len(topics) > 1 else frame
    try:
        for topic in sorted(topics):
            records = kept.where(F.col("topic") == topic).select(*_COLUMNS)
            fields = kept_fields(Table(aside.files, topic), partial(_sample, records))
            if fields is None:
                bad = F.lit("no schema yet: no value so far is a JSON object")
                _write(records.withColumn("reason", bad), aside, BAD)
            else:
                parsed = records.mapInArrow(parser(fields), _parsed_schema(fields))
                _write_judged(parsed, _as_columns, aside)
    finally:
        if kept is not frame:
            kept.unpersist()


def _as_columns(good: "DataFrame") -> "DataFrame":
    renamed = good.drop("value", "reason").withColumnRenamed("row", "value")
    return renamed.select("key", "value", "extra", *_COLUMNS[2:])


def _sample(records: "DataFrame") -> list[bytes]:
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    rows = records.where(F.col("value").isNotNull()).select("value").limit(SAMPLE).collect()
    return [bytes(row.value) for row in rows]


def kept_fields(table: Table, sample: Callable[[], list[bytes]]) -> Fields | None:
    """The schema kept beside the table; inferred and kept now if there is none. None if nothing fits one."""
    path = f"{table.path}/{STATE}/schema.json"
    content = table.files.read(path)
    if content is None:
        inferred = json_shape.infer(sample())
        if inferred is None:
            return None
        with table.files.locked(table.lock):  # two instances may infer; the first one's is kept
            content = table.files.read(path)
            if content is None:
                content = json_shape.encode_fields(inferred)
                table.files.replace(path, content)
    return json_shape.decode_fields(content)


def _parsed_schema(fields: Fields) -> str:
    row = json_shape.ddl(["struct", dict(fields)])
    return f"row {row}, extra string, {_RAW}{_PLACE}, reason string"


def parser(fields: Fields) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """For ``mapInArrow``: each record with its columns and extras, or with its value and what is wrong."""

    def parse_all(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            yield parse_batch(batch, fields)

    return parse_all


def parse_batch(batch: "pa.RecordBatch", fields: Fields) -> "pa.RecordBatch":
    """The columns of ``_parsed_schema`` for one batch of records."""
    from pyarrow import lib as pa

    rows: list[Mapping[str, object] | None] = []
    extras: list[str | None] = []
    reasons: list[str | None] = []
    for value in batch.column("value"):
        raw = value.as_py()
        row, extra, reason = (None, None, None) if raw is None else json_shape.parse(raw, fields)
        rows.append(row)
        extras.append(extra)
        reasons.append(reason)
    arrays = [
        pa.array(rows, _arrow_type(["struct", dict(fields)])),
        pa.array(extras, pa.string()),
        *(batch.column(name) for name in _COLUMNS),
        pa.array(reasons, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["row", "extra", *_COLUMNS, "reason"])


def _arrow_type(shape: json_shape.Shape) -> "pa.DataType":
    from pyarrow import lib as pa

    if isinstance(shape, str):
        kinds = {
            json_shape.BIGINT: pa.int64(),
            json_shape.DOUBLE: pa.float64(),
            json_shape.BOOLEAN: pa.bool_(),
        }
        return kinds.get(shape, pa.string())
    if shape[0] == "array":
        return pa.list_(_arrow_type(json_shape.element(shape)))
    fields = json_shape.struct_fields(shape).items()
    return pa.struct([pa.field(name, _arrow_type(inner)) for name, inner in fields])
