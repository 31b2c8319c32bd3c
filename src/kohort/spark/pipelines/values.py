"""What becomes of the values of records: bytes as they are, text, or columns by a schema that is kept.

Each way writes the good records of a micro-batch aside and, apart from them, the bad ones with a reason.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, assert_never

from kohort.spark.pipelines import json_shape
from kohort.spark.pipelines.files import LocalFiles
from kohort.spark.pipelines.forms import Evolve, Values
from kohort.spark.pipelines.json_evolution import evolved
from kohort.spark.pipelines.json_shape import Fields, Loader, load
from kohort.spark.pipelines.staging import BAD, GOOD, TABLE
from kohort.spark.pipelines.table import Table
from kohort.spark.pipelines.table_schema import TableSchema, keep_evolved, keep_inferred

if TYPE_CHECKING:
    from pyarrow import lib as pa
    from pyspark.sql import DataFrame

SAMPLE = 1_000  # how many values of a topic's first batch decide its schema
MOST_ROWS_A_FILE = 2_000_000

RECORD = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
_RAW = "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, "
_EXAMPLE = "partition int, offset bigint, value binary"
_PLACE = "partition int, offset bigint, timestamp timestamp"


class StagingTarget(NamedTuple):
    """Where a micro-batch is written before it lands, and with how many tasks."""

    files: LocalFiles
    directory: str
    tasks: int
    evolve: Evolve = Evolve.OFF
    loader: Loader = load


def write_aside(frame: "DataFrame", values: Values, topics: Collection[str], aside: StagingTarget) -> None:
    """Write a micro-batch of these topics, each record to one file."""
    match values:
        case Values.BINARY:
            _write(frame.select(*RECORD), aside, GOOD)
        case Values.UTF8:
            _write_text(frame, aside)
        case Values.JSON | Values.REGISTRY:
            _write_json(frame, topics, aside)
        case _:
            assert_never(values)


def _write(frame: "DataFrame", aside: StagingTarget, kind: str) -> None:
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


def _write_text(frame: "DataFrame", aside: StagingTarget) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    text = F.col("value").cast("string")
    reason = F.when(F.is_valid_utf8(text), None).otherwise(F.lit("not UTF-8"))
    judged = frame.select(*RECORD).withColumn("reason", F.when(F.col("value").isNotNull(), reason))
    judged = judged.withColumn("evolves", F.lit(False))
    _write_judged(judged, lambda good: good.withColumn("value", text).select(*RECORD), aside)


def _write_judged(
    judged: "DataFrame", shown: "Callable[[DataFrame], DataFrame]", aside: StagingTarget
) -> bool:
    """Write the records without a reason as ``shown``, and the others, if there are any, with theirs.

    Whether that is all; not so if some of them need other columns.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    seen = Observation()
    is_bad = F.col("reason").isNotNull()
    counts = (F.count_if(is_bad).alias("bad"), F.count_if("evolves").alias("evolving"))
    watched = judged.observe(seen, *counts)
    _write(shown(watched.where(~is_bad)), aside, GOOD)
    if seen.get["evolving"]:
        return False
    if seen.get["bad"]:  # rarely: it takes reading the batch once more
        _write(judged.where(is_bad).select(*RECORD, "reason"), aside, BAD)
    return True


# JSON


def _write_json(frame: "DataFrame", topics: Collection[str], aside: StagingTarget) -> None:
    """Topic by topic, because each has its own columns."""
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    kept = frame.persist() if len(topics) > 1 else frame
    try:
        for topic in sorted(topics):
            records = kept.where(F.col("topic") == topic).select(*RECORD)
            schema = keep_inferred(Table(aside.files, topic), partial(_sample, records), aside.loader)
            if schema is None:
                bad = F.lit("no schema yet: no value so far is an object")
                _write(records.withColumn("reason", bad), aside, BAD)
            else:
                _write_topic(records, topic, schema, aside)
    finally:
        if kept is not frame:
            kept.unpersist()


def _write_topic(records: "DataFrame", topic: str, schema: TableSchema, aside: StagingTarget) -> None:
    """Write what fits; if values need other columns, add those and write all of it again."""
    policy = Evolve.OFF if schema.is_pinned else aside.evolve
    parsed = records.mapInArrow(parser(schema.fields, policy, aside.loader), _parsed_schema(schema.fields))
    if _write_judged(parsed, _as_columns, aside):
        return
    aside.files.remove_tree(f"{aside.directory}/{GOOD}/{TABLE}{topic}")
    found = records.mapInArrow(examples(schema.fields, policy, aside.loader), _EXAMPLE)
    values = [bytes(row.value) for row in sorted(found.collect())]
    fields = keep_evolved(Table(aside.files, topic), values, policy, aside.loader).fields
    parsed = records.mapInArrow(parser(fields, Evolve.OFF, aside.loader), _parsed_schema(fields))
    _write_judged(parsed, _as_columns, aside)


def _as_columns(good: "DataFrame") -> "DataFrame":
    renamed = good.drop("value", "reason", "evolves").withColumnRenamed("row", "value")
    return renamed.select("key", "value", "extra", *RECORD[2:])


def _sample(records: "DataFrame") -> list[bytes]:
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    rows = records.where(F.col("value").isNotNull()).select("value").limit(SAMPLE).collect()
    return [bytes(row.value) for row in rows]


def _parsed_schema(fields: Fields) -> str:
    row = json_shape.ddl(["struct", dict(fields)])
    return f"row {row}, extra string, {_RAW}{_PLACE}, reason string, evolves boolean"


def examples(
    fields: Fields, policy: Evolve, loader: Loader
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """For ``mapInArrow``: of all records that need other columns one for each of these."""

    def find_all(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from pyarrow import lib as pa

        grown = fields
        for batch in batches:
            needed = []
            for number, value in enumerate(batch.column("value")):
                before, grown = grown, with_value(grown, value.as_py(), policy, loader)
                if grown is not before:
                    needed.append(number)
            chosen = batch.take(pa.array(needed, pa.int64()))
            names = ["partition", "offset", "value"]
            yield pa.RecordBatch.from_arrays([chosen.column(name) for name in names], names=names)

    return find_all


def with_value(fields: Fields, value: bytes | None, policy: Evolve, loader: Loader = load) -> Fields:
    """Fields that hold a value, too; the same if they do, or cannot."""
    document = None if value is None else loader(value)[0]
    return evolved(fields, document, policy) if isinstance(document, dict) else fields


def parser(
    fields: Fields, policy: Evolve = Evolve.OFF, loader: Loader = load
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """For ``mapInArrow``: each record with its columns and extras, or with its value and what is wrong."""

    def parse_all(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            yield parse_batch(batch, fields, policy, loader)

    return parse_all


def parse_batch(
    batch: "pa.RecordBatch", fields: Fields, policy: Evolve = Evolve.OFF, loader: Loader = load
) -> "pa.RecordBatch":
    """The columns of ``_parsed_schema`` for one batch of records."""
    from pyarrow import lib as pa

    rows: list[Mapping[str, object] | None] = []
    extras: list[str | None] = []
    reasons: list[str | None] = []
    evolving: list[bool] = []
    for value in batch.column("value"):
        raw = value.as_py()
        row, extra, reason = (None, None, None) if raw is None else json_shape.parse(raw, fields, loader)
        rows.append(row)
        extras.append(extra)
        reasons.append(reason)
        is_odd = extra is not None or reason is not None
        may_evolve = is_odd and policy is not Evolve.OFF
        evolving.append(may_evolve and with_value(fields, raw, policy, loader) is not fields)
    arrays = [
        pa.array(rows, _arrow_type(["struct", dict(fields)])),
        pa.array(extras, pa.string()),
        *(batch.column(name) for name in RECORD),
        pa.array(reasons, pa.string()),
        pa.array(evolving, pa.bool_()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["row", "extra", *RECORD, "reason", "evolves"])


def as_landed(judged: "pa.RecordBatch") -> "pa.RecordBatch":
    """Parsed records that fit, with the columns of their table."""
    names = ["key", "value", "extra", *RECORD[2:]]
    arrays = [judged.column("row" if name == "value" else name) for name in names]
    return judged.from_arrays(arrays, names=names)


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
    fields = json_shape.columns_of(json_shape.struct_fields(shape)).items()
    return pa.struct([pa.field(name, _arrow_type(inner)) for name, inner in fields])
