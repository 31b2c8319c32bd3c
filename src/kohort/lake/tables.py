"""Each table of the lake from those below it: a DataFrame in, a DataFrame out, nothing kept, nothing written.

What needs the history of a group in order is a fold in Python over its records, which are few; what is of
the size of the commits is SQL.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kohort.lake import schemas
from kohort.lake.columns import CONTROL, OFFSET_COMMIT
from kohort.lake.findings import findings_of
from kohort.lake.rebalances import inferred_rebalances, sessions, told_rebalances
from kohort.lake.snapshots import snapshots
from kohort.lake.status import lag_status

if TYPE_CHECKING:
    from pyarrow import lib as pa

__all__ = [
    "findings", "group_snapshots", "journal", "lag_samples", "lag_status", "member_sessions",
    "offset_commits", "rebalances",
]  # fmt: skip

Rows = list[dict[str, Any]]
_KEY = ("src_partition", "src_offset")
_OF_GROUP = ("group_id", "topic", "partition")


# --- from records -------------------------------------------------------------------------------


def offset_commits(records: DataFrame) -> DataFrame:
    """Commits and their tombstones, each once; those of a transaction if its marker says COMMIT."""
    once = records.dropDuplicates(list(_KEY))
    commits = once.where((f.col("kind") == OFFSET_COMMIT) & f.col("problem").isNull())
    plain = commits.where(f.col("producer_id").isNull())
    markers = once.where(f.col("kind") == CONTROL).select(
        "src_partition", "producer_id", f.col("src_offset").alias("marker"), f.col("details").alias("result")
    )
    same = ["src_partition", "producer_id"]
    ended = (
        commits.where(f.col("producer_id").isNotNull())
        .join(markers, same)
        .where(f.col("marker") > f.col("src_offset"))
        .groupBy(*commits.columns)
        .agg(f.min_by("result", "marker").alias("result"))
        .where(f.col("result") == "COMMIT")
    )
    both = plain.unionByName(ended.select(*plain.columns))
    # A tombstone has no time of its own but that of its record.
    return both.withColumn("commit_ts", f.coalesce("commit_ts", "ts")).select(*schemas.OFFSET_COMMITS.columns)


def group_snapshots(records: DataFrame, topic_names: Mapping[str, str]) -> DataFrame:
    """Groups as they were stored. ``topic_names``: names by topic id, which is all KIP-848 records have."""
    names = dict(topic_names)
    kept = records.where(f.col("group_id").isNotNull() & (f.col("kind") != OFFSET_COMMIT)).dropDuplicates(
        [*_KEY]
    )
    kept = kept.select(
        "group_id", "kind", "tombstone", "member_id", "details", "problem", *_KEY, _millis("ts")
    )
    return _by_group(
        kept,
        schemas.GROUP_SNAPSHOTS,
        lambda rows: snapshots(sorted(rows, key=lambda row: row["src_offset"]), names),
    )


# --- from the journal's topic -------------------------------------------------------------------


def journal(topic: DataFrame) -> DataFrame:
    """The events of ``__kohort_journal``, as ``.format("kohort")`` reads it; only documents count."""
    text = topic.select("offset", f.col("value").cast("string").alias("document"))

    def at(path: str) -> Any:  # noqa: ANN401  # a Column; which class depends on the session
        return f.get_json_object("document", path)

    numbers = f.from_json(at("$.cause"), "map<string,string>")
    known = text.where(at("$.event").isNotNull() & at("$.at").isNotNull())
    return known.select(
        f.col("offset").alias("event_id"),
        f.timestamp_millis(at("$.at").cast("bigint")).alias("ts"),
        at("$.group").alias("group_id"),
        at("$.details.generation").cast("int").alias("generation"),
        at("$.event").alias("kind"),
        f.coalesce(at("$.details.member_id"), at("$.cause.member_id")).alias("member_id"),
        at("$.cause.sentence").alias("cause"),
        at("$.cause.kind").alias("rule"),
        f.transform_values(
            f.map_filter(numbers, lambda _, value: value.try_cast("double").isNotNull()),
            lambda _, value: value.try_cast("double"),
        ).alias("numbers"),
        "document",
    )


# --- lag ----------------------------------------------------------------------------------------


def lag_samples(commits: DataFrame, log_ends: DataFrame, snapshots: DataFrame) -> DataFrame:
    """For each time a log end was seen, and each group that had committed there: how far it was behind.

    ``time_lag_ms``: how long the oldest record that the group had not consumed had been there for certain:
    the time since a log end behind it was first seen. ``owner``: the member that had the partition.
    """
    ends = log_ends.dropDuplicates(["topic", "partition", "ts"])
    groups = commits.select(*_OF_GROUP).distinct()
    asked = groups.join(ends, ["topic", "partition"]).select(
        *_OF_GROUP,
        "ts",
        "log_end",
        f.lit(1).alias("is_sample"),
        *_nulls(committed="bigint", commit_ts="timestamp"),
    )
    known = commits.select(
        *_OF_GROUP,
        f.col("commit_ts").alias("ts"),
        f.lit(None).cast("bigint").alias("log_end"),
        f.lit(0).alias("is_sample"),
        f.when(f.col("tombstone"), f.lit(-1)).otherwise(f.col("committed")).alias("committed"),
        "commit_ts",
        "src_offset",
    )
    asked = asked.withColumn("src_offset", f.lit((1 << 63) - 1))
    so_far = (
        Window.partitionBy(*_OF_GROUP)
        .orderBy("ts", "is_sample", "src_offset")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    filled = known.unionByName(asked).select(
        *_OF_GROUP,
        "ts",
        "log_end",
        "is_sample",
        f.last("committed", True).over(so_far).alias("committed"),
        f.last("commit_ts", True).over(so_far).alias("commit_ts"),
    )
    samples = filled.where((f.col("is_sample") == 1) & (f.col("committed") >= 0)).withColumn(
        "lag", f.greatest(f.col("log_end") - f.col("committed"), f.lit(0))
    )
    return _with_owner(_with_time_lag(samples, ends), snapshots).select(*schemas.LAG_SAMPLES.columns)


def _nulls(**columns: str) -> list[Any]:
    return [f.lit(None).cast(kind).alias(name) for name, kind in columns.items()]


def _with_time_lag(samples: DataFrame, ends: DataFrame) -> DataFrame:
    """Since when the log has ended behind the committed offset: the time of the next larger end."""
    seen = ends.groupBy("topic", "partition", f.col("log_end").alias("at")).agg(f.min("ts").alias("seen"))
    places = samples.select("topic", "partition", f.col("committed").alias("at")).distinct()
    # Of an end and a commit at one offset the end comes first: it is not behind the commit.
    both = seen.withColumn("is_place", f.lit(0)).unionByName(
        places.withColumn("seen", f.lit(None).cast("timestamp")).withColumn("is_place", f.lit(1))
    )
    onwards = (
        Window.partitionBy("topic", "partition")
        .orderBy("at", "is_place")
        .rowsBetween(0, Window.unboundedFollowing)
    )
    first_behind = (
        both.withColumn("behind_since", f.min("seen").over(onwards))
        .where(f.col("is_place") == 1)
        .select("topic", "partition", f.col("at").alias("committed"), "behind_since")
    )
    span = f.unix_millis("ts") - f.unix_millis("behind_since")
    waited = f.when(f.col("lag") == 0, f.lit(0)).otherwise(f.greatest(f.coalesce(span, f.lit(0)), f.lit(0)))
    return samples.join(first_behind, ["topic", "partition", "committed"], "left").withColumn(
        "time_lag_ms", waited.cast("bigint")
    )


def _with_owner(samples: DataFrame, snapshots: DataFrame) -> DataFrame:
    """The newest snapshot at the time of each sample, and who has the partition in it."""
    told = snapshots.select(
        "group_id", f.col("src_offset").alias("snapshot"), "ts", f.size("members").alias("members")
    )
    moments = samples.select("group_id", "ts").distinct().withColumn("is_moment", f.lit(1))
    both = told.withColumn("is_moment", f.lit(0)).unionByName(moments, allowMissingColumns=True)
    so_far = (
        Window.partitionBy("group_id")
        .orderBy("ts", "is_moment", "snapshot")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    newest = (
        both.withColumn("snapshot", f.last("snapshot", True).over(so_far))
        .withColumn("members", f.last("members", True).over(so_far))
        .where(f.col("is_moment") == 1)
        .select("group_id", "ts", "snapshot", (f.coalesce("members", f.lit(0)) > 0).alias("has_members"))
    )
    owned = (
        snapshots.select(
            "group_id", f.col("src_offset").alias("snapshot"), f.explode("members").alias("member")
        )
        .select("group_id", "snapshot", "member.member_id", f.explode("member.assigned").alias("one"))
        .select("group_id", "snapshot", "one.topic", "one.partition", f.col("member_id").alias("owner"))
        .dropDuplicates(["group_id", "snapshot", "topic", "partition"])
    )
    return samples.join(newest, ["group_id", "ts"], "left").join(
        owned, ["group_id", "snapshot", "topic", "partition"], "left"
    )


# --- rebalances, members, findings --------------------------------------------------------------


def rebalances(snapshots: DataFrame, journal: DataFrame) -> DataFrame:
    """Rebalances of each group: told by the journal if it has the group, inferred from snapshots if not."""
    gaps = journal.where(f.col("group_id").isNull()).select("event_id", "document")
    groups = journal.where(f.col("group_id").isNotNull()).select("group_id").distinct()
    events = journal.select("group_id", "event_id", "document").where(f.col("group_id").isNotNull())
    heard = events.unionByName(groups.crossJoin(gaps)).dropDuplicates(["group_id", "event_id"])
    told = _by_group(heard, schemas.REBALANCES, _told)
    guessed = _by_group(_millis_of(snapshots), schemas.REBALANCES, _inferred)
    return told.unionByName(guessed.join(groups, "group_id", "left_anti"))


def _told(rows: Rows) -> list[dict[str, Any]]:
    rows.sort(key=lambda row: row["event_id"])
    return told_rebalances(rows[0]["group_id"], [row["document"].encode() for row in rows])


def _inferred(rows: Rows) -> Iterable[dict[str, Any]]:
    return inferred_rebalances(sorted(rows, key=lambda row: row["src_offset"]))


def member_sessions(snapshots: DataFrame, journal: DataFrame) -> DataFrame:
    """When each member id came and went; the journal's words for why, where it has them."""
    removed = (
        journal.where((f.col("kind") == "MemberRemoved") & f.col("group_id").isNotNull())
        .groupBy("group_id")
        .agg(
            f.collect_list(f.struct("member_id", f.unix_millis("ts").alias("at"), "cause")).alias("removals")
        )
    )

    def fold(rows: Rows) -> Iterable[dict[str, Any]]:
        rows.sort(key=lambda row: row["src_offset"])
        removals = {one["member_id"]: (one["at"], one["cause"]) for one in rows[0]["removals"] or ()}
        return sessions(rows, removals)

    return _by_group(_millis_of(snapshots).join(removed, "group_id", "left"), schemas.MEMBER_SESSIONS, fold)


def findings(rebalances: DataFrame, sessions: DataFrame, snapshots: DataFrame) -> DataFrame:
    """What is worth a look in each group."""
    last = snapshots.groupBy("group_id").agg(f.max_by("members", "src_offset").alias("members"))
    of_group = (
        last.join(_gathered(rebalances, "rebalances", "start_ts", "end_ts"), "group_id", "left")
        .join(_gathered(sessions, "sessions", "joined", "left"), "group_id", "left")
    )  # fmt: skip
    return _by_group(of_group, schemas.FINDINGS, lambda rows: findings_of(rows[0]))


def _gathered(frame: DataFrame, name: str, *times: str) -> DataFrame:
    for time in times:
        frame = frame.withColumn(time, f.unix_millis(time))
    others = [column for column in frame.columns if column != "group_id"]
    return frame.groupBy("group_id").agg(f.collect_list(f.struct(*others)).alias(name))


# --- how folds run ------------------------------------------------------------------------------


def _millis(name: str) -> Any:  # noqa: ANN401  # a Column
    return f.unix_millis(name).alias(name)


def _millis_of(snapshots: DataFrame) -> DataFrame:
    return snapshots.withColumn("ts", _millis("ts")).withColumn("since", _millis("since"))


def _by_group(
    frame: DataFrame, table: schemas.TableInfo, fold: Callable[[Rows], Iterable[Mapping[str, Any]]]
) -> DataFrame:
    """The rows that ``fold`` makes of the rows of each group; times in them are milliseconds."""
    schema = table.schema

    def work(rows: "pa.Table") -> "pa.Table":
        return _arrow(fold(rows.to_pylist()), schema)

    return frame.groupBy("group_id").applyInArrow(work, schema)


def _arrow(rows: Iterable[Mapping[str, Any]], schema: StructType) -> "pa.Table":
    from pyarrow import lib as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema, timezone="UTC")
    made = list(rows)
    arrays = []
    for field in wanted:
        values = [row[field.name] for row in made]
        if isinstance(field.type, pa.TimestampType):
            values = [None if value is None else value * 1_000 for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=wanted)
