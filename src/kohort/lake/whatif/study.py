"""A what-if over a lake: settings and seeds run in Spark's tasks, or right here if there is little to do."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.lake import schemas
from kohort.lake.store import Lake
from kohort.lake.whatif.answer import Answer, conclude
from kohort.lake.whatif.happenings import Recording
from kohort.lake.whatif.recording import read_recording
from kohort.lake.whatif.replay import Result, simulate_one
from kohort.lake.whatif.settings import Variant, variants

if TYPE_CHECKING:
    from pyarrow import lib as pa
    from pyspark.sql import DataFrame, SparkSession

SEEDS: Final = 20
_TASK_SECONDS: Final = 1.5  # a task costs 60 ms of a core: shorter ones are mostly that
_TASKS_PER_CORE: Final = 4
_NUMBERS: Final = ("rebalances", "unowned_ms", "dead_ms", "longest_ms", "moved")

Runs = dict[tuple[int, int], Result]


def whatif(
    spark: "SparkSession",
    root: Path,
    group: str,
    changes: Mapping[str, Sequence[Any]],
    *,
    seeds: int = SEEDS,
) -> Answer:
    """What a group of a lake would have done under other settings.

    ``changes``: values by name, as ``settings.parse_changes`` reads them; every combination is tried.
    Raises ``LakeError``, ``NoHistoryError`` or ``SettingError``.
    """
    recording = load_recording(spark, Lake.existing(root), group)
    tried = variants(recording.settings, changes)
    return conclude(recording, tried, run_all(spark, recording, tried, seeds), seeds)


def load_recording(spark: "SparkSession", lake: Lake, group: str) -> Recording:
    """The history of one group, from the lake's tables."""
    return read_recording(
        group,
        _rows(lake.read(spark, schemas.GROUP_SNAPSHOTS), group, "src_offset"),
        _rows(
            lake.read(spark, schemas.JOURNAL).select("group_id", "event_id", "document"), group, "event_id"
        ),
    )


def _rows(frame: "DataFrame", group: str, order: str) -> list[dict[str, Any]]:
    from pyspark.sql import functions as f

    kept = frame.where(f.col("group_id") == group)
    for name in ("ts", "since"):
        if name in kept.columns:
            kept = kept.withColumn(name, f.unix_millis(name))
    return [row.asDict(recursive=True) for row in kept.orderBy(order).collect()]


def run_all(spark: "SparkSession", recording: Recording, tried: Sequence[Variant], seeds: int) -> Runs:
    """Every variant with every seed; the results do not depend on how many tasks there are."""
    began = time.perf_counter()
    first = simulate_one(recording, tried[0].settings, 0)
    cost = (time.perf_counter() - began) * len(tried) * seeds
    if cost < 2 * _TASK_SECONDS:
        return {
            (place, seed): simulate_one(recording, each.settings, seed) if place or seed else first
            for place, each in enumerate(tried)
            for seed in range(seeds)
        }
    most = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    return run_on_spark(spark, recording, tried, seeds, max(1, min(most, round(cost / _TASK_SECONDS))))


def run_on_spark(
    spark: "SparkSession", recording: Recording, tried: Sequence[Variant], seeds: int, tasks: int
) -> Runs:
    """The same in this number of tasks."""
    settings = [each.settings for each in tried]
    plan = spark.range(len(tried) * seeds, numPartitions=tasks)

    def simulate(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from pyarrow import lib as pa

        for batch in batches:
            rows = [
                _row(place, simulate_one(recording, settings[place // seeds], place % seeds))
                for place in batch.column(0).to_pylist()
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=_schema())

    found = plan.mapInArrow(simulate, _DDL).collect()
    return {divmod(row.place, seeds): _result(row.asDict()) for row in found}


_DDL: Final = "place long, " + ", ".join(f"{name} long" for name in _NUMBERS) + ", started array<long>"


def _schema() -> "pa.Schema":
    from pyarrow import lib as pa

    numbers = [pa.field(name, pa.int64()) for name in ("place", *_NUMBERS)]
    return pa.schema([*numbers, pa.field("started", pa.list_(pa.int64()))])


def _row(place: int, result: Result) -> dict[str, Any]:
    return {"place": place, "started": list(result.started)} | {
        name: getattr(result, name) for name in _NUMBERS
    }


def _result(row: Mapping[str, Any]) -> Result:
    return Result(**{name: row[name] for name in _NUMBERS}, started=tuple(row["started"]))
