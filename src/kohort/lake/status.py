"""Lag status: numbered rules over a window of samples, in SQL. docs/reference/group-lake.md has the rules."""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kohort.lake import schemas

WINDOW: Final = 10  # samples
FEWEST: Final = 3  # of which a window needs, to say something about movement


class StatusRule(NamedTuple):
    """One rule: what it says, and the SQL condition over the window. The first that fits decides."""

    number: int
    status: str
    condition: str
    meaning: str


RULES: Final = (
    StatusRule(1, "OK", "lag = 0", "the group has consumed everything"),
    StatusRule(
        2, "REWOUND", "committed < highest",
        "the committed offset is lower than before in the window: the group was reset",
    ),
    StatusRule(
        3, "UNOWNED", "has_members AND owner IS NULL AND owners = 0",
        "the group has members, and none of them had the partition in the whole window",
    ),
    StatusRule(4, "UNKNOWN", f"window_n < {FEWEST}", "there are too few samples to see a movement"),
    StatusRule(
        5, "OK", "least_lag = 0", "the group had consumed everything at some moment of the window",
    ),
    StatusRule(
        6, "STOPPED", "committed = lowest AND commit_ts <= first_ts",
        "records wait, and the group has not committed at all since the window began",
    ),
    StatusRule(
        7, "STALLED", "committed = lowest",
        "the group commits, and always the same offset although records wait",
    ),
    StatusRule(
        8, "LAGGING", "NOT shrank AND lag > first_lag",
        "the group moves on, and its lag never got smaller and is larger than at the beginning",
    ),
    StatusRule(9, "OK", "TRUE", "the group moves on, and its lag got smaller at times, or stays the same"),
)  # fmt: skip


def judged(samples: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Each sample with its verdict, from it and up to nine before it of the same group and partition.

    ``before``: the samples before these, as ``samples_carry`` makes them. They keep their verdicts and come
    back with the others, under ``is_new`` false.
    """
    new = samples.withColumns(_nulls(status="string", since="timestamp"))
    known = new if before is None else new.unionByName(before)
    found = _judge(known.withColumnsRenamed({"status": "old_status", "since": "old_since"}))
    verdict = ("status", "rule", "since", "window_n")
    return found.select(
        *schemas.LAG_SAMPLES.columns, "load", *verdict, f.isnull("old_status").alias("is_new")
    )


def lag_status(verdicts: DataFrame) -> DataFrame:
    """The verdicts on new samples."""
    return verdicts.where("is_new").select(*schemas.LAG_STATUS.columns, "load")


def samples_carry(verdicts: DataFrame) -> DataFrame:
    """The last samples of each group and partition with their verdicts: all that the next ones need."""
    newest = Window.partitionBy("group_id", "topic", "partition").orderBy(f.desc("load"), f.desc("ts"))
    placed = verdicts.withColumn("_place", f.row_number().over(newest))
    return placed.where(f.col("_place") < WINDOW).select(
        *schemas.LAG_SAMPLES.columns, "load", "status", "since"
    )


def _nulls(**columns: str) -> dict[str, Column]:
    return {name: f.lit(None).cast(kind) for name, kind in columns.items()}


def _judge(samples: DataFrame) -> DataFrame:
    partition = Window.partitionBy("group_id", "topic", "partition").orderBy("load", "ts")
    window = partition.rowsBetween(1 - WINDOW, 0)
    seen = (
        samples.withColumn("smaller", f.coalesce(f.col("lag") < f.lag("lag").over(partition), f.lit(False)))
        # The first sample of a window has nothing before it to be smaller than.
        .withColumn("place", f.row_number().over(partition))
        .withColumn("window_n", f.count("*").over(window).cast("int"))
        .withColumn("highest", f.max("committed").over(window))
        .withColumn("lowest", f.min("committed").over(window))
        .withColumn("least_lag", f.min("lag").over(window))
        .withColumn("first_lag", f.first("lag").over(window))
        .withColumn("first_ts", f.first("ts").over(window))
        .withColumn("owners", f.count("owner").over(window))
        .withColumn("last_smaller", f.max(f.when(f.col("smaller"), f.col("place"))).over(window))
        .withColumn(
            "shrank",
            f.coalesce(f.col("last_smaller") > f.col("place") - f.col("window_n") + 1, f.lit(False)),
        )
    )
    number = f.lit(RULES[-1].number)
    status = f.lit(RULES[-1].status)
    for rule in reversed(RULES[:-1]):
        number = f.when(f.expr(rule.condition), f.lit(rule.number)).otherwise(number)
        status = f.when(f.expr(rule.condition), f.lit(rule.status)).otherwise(status)
    judged = seen.withColumn("rule", number).withColumn("status", f.coalesce("old_status", status))
    changed = f.coalesce(f.col("status") != f.lag("status").over(partition), f.lit(True))
    so_far = partition.rowsBetween(Window.unboundedPreceding, 0)
    began = f.when(f.col("changed"), f.coalesce("old_since", "ts"))
    return judged.withColumn("changed", changed).withColumn("since", f.max(began).over(so_far))
