"""Each table of the lake from those below it: a DataFrame in, a DataFrame out, nothing kept, nothing written.

What needs the history of a group in order is a fold in Python over its records, which are few; what is of
the size of the commits is SQL.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kohort.lake import schemas
from kohort.lake.columns import CONTROL, GROUP_METADATA, OFFSET_COMMIT
from kohort.lake.ends_seen import EndsSeen
from kohort.lake.findings import findings_of
from kohort.lake.rebalances import inferred_rebalances, journaled_rebalances, sessions
from kohort.lake.snapshots import snapshots
from kohort.lake.status import judged, lag_status, samples_carry
from kohort.lake.store import no_rows, with_load

if TYPE_CHECKING:
    from pyarrow import lib as pa

__all__ = [
    "findings", "group_snapshots", "journal", "judged", "lag_samples", "lag_status", "member_sessions",
    "offset_commits", "rebalances", "samples_carry", "stories",
]  # fmt: skip

Rows = list[dict[str, Any]]
_KEY = ("src_partition", "src_offset")
_SAME = ["src_partition", "producer_id"]
_LAST = (1 << 63) - 1
_REMOVED = "MemberRemoved"
_OF_STORY = {
    "rebalance": schemas.REBALANCES, "session": schemas.MEMBER_SESSIONS, "finding": schemas.FINDINGS,
}  # fmt: skip
_OF_GROUP = ("group_id", "topic", "partition")


# --- from records -------------------------------------------------------------------------------


def offset_commits(records: DataFrame) -> DataFrame:
    """Commits and their tombstones, each once; those of a transaction if its marker says COMMIT."""
    once = records.dropDuplicates(list(_KEY))
    commits = once.where((f.col("kind") == OFFSET_COMMIT) & f.col("problem").isNull())
    plain = commits.where(f.col("producer_id").isNull())
    ended = (
        commits.where(f.col("producer_id").isNotNull())
        .join(_markers(once), _SAME)
        .where(f.col("marker") > f.col("src_offset"))
        .groupBy(*commits.columns)
        .agg(f.min_by(f.struct("result", "marked"), "marker").alias("first"))
        .where(f.col("first.result") == "COMMIT")
        .withColumn("load", f.greatest("load", "first.marked"))
    )
    both = plain.unionByName(ended.select(*plain.columns))
    # A tombstone has no time of its own but that of its record.
    return both.withColumn("commit_ts", f.coalesce("commit_ts", "ts")).select(
        *schemas.OFFSET_COMMITS.columns, "load"
    )


def _markers(records: DataFrame) -> DataFrame:
    return records.where(f.col("kind") == CONTROL).select(
        *_SAME,
        f.col("src_offset").alias("marker"),
        f.col("details").alias("result"),
        f.col("load").alias("marked"),
    )


def undecided(records: DataFrame) -> DataFrame:
    """Commits of transactions whose marker has not landed yet."""
    commits = records.where((f.col("kind") == OFFSET_COMMIT) & f.col("producer_id").isNotNull())
    last = _markers(records).groupBy(*_SAME).agg(f.max("marker").alias("marker"))
    return (
        commits.join(last, _SAME, "left")
        .where(f.col("marker").isNull() | (f.col("marker") < f.col("src_offset")))
        .select(*commits.columns)
    )


def of_groups(records: DataFrame) -> DataFrame:
    """Of the records that snapshots are made of the newest of each key, as compaction would leave them."""
    newest = Window.partitionBy("group_id", "kind", "member_id").orderBy(f.desc("src_offset"))
    return (
        _telling(records)
        .withColumn("_place", f.row_number().over(newest))
        # A tombstone of a classic group ends what was before it.
        .where((f.col("_place") == 1) & (~f.col("tombstone") | (f.col("kind") == GROUP_METADATA)))
        .drop("_place")
    )


def _telling(records: DataFrame) -> DataFrame:
    of_group = (f.col("kind") == GROUP_METADATA) | f.col("kind").startswith("consumer_group_")
    return records.where(f.col("group_id").isNotNull() & of_group & f.col("problem").isNull())


def group_snapshots(records: DataFrame, topic_names: Mapping[str, str], after: int = 0) -> DataFrame:
    """Groups as they were stored, from records of loads ``after`` that one.

    ``topic_names``: names by topic id, which is all KIP-848 records have.
    """
    names = dict(topic_names)
    kept = _telling(records).dropDuplicates([*_KEY])
    kept = kept.select(
        "group_id", "kind", "tombstone", "member_id", "details", "problem", *_KEY, _millis("ts"), "load"
    )

    def fold(rows: Rows) -> Iterable[Mapping[str, Any]]:
        loads = {row["src_offset"]: row["load"] for row in rows}
        folded = snapshots(sorted(rows, key=lambda row: row["src_offset"]), names)
        made = ({**one, "load": loads[one["src_offset"]]} for one in folded)
        return (one for one in made if one["load"] > after)

    return _by_group(kept, schemas.GROUP_SNAPSHOTS, fold, with_load(schemas.GROUP_SNAPSHOTS))


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


def lag_samples(timed: DataFrame, snapshots: DataFrame) -> DataFrame:
    """For each time a log end was seen, and each group that had committed there: how far it was behind.

    What has landed later counts later: a sample knows the commits and snapshots of its own load and of those
    before it. ``timed`` is what ``time_lags`` makes. ``owner``: the member that had the partition.
    """
    samples = timed.where("group_id is not null")
    return _with_owner(samples, snapshots).select(*schemas.LAG_SAMPLES.columns, "load")


def positions_at(commits: DataFrame, log_ends: DataFrame) -> DataFrame:
    """The log ends with the groups that had committed there; those without a group have a null for it."""
    ends = log_ends.groupBy("topic", "partition", "ts").agg(
        f.min("load").alias("load"), f.min_by("log_end", "load").alias("log_end")
    )
    groups = commits.select(*_OF_GROUP).distinct()
    asked = groups.join(ends, ["topic", "partition"]).select(
        *_OF_GROUP,
        "ts",
        "load",
        "log_end",
        f.lit(1).alias("is_sample"),
        *_nulls(committed="bigint", commit_ts="timestamp"),
        f.lit(_LAST).alias("src_offset"),
    )
    known = commits.select(
        *_OF_GROUP,
        f.col("commit_ts").alias("ts"),
        "load",
        f.lit(None).cast("bigint").alias("log_end"),
        f.lit(0).alias("is_sample"),
        f.when(f.col("tombstone"), f.lit(-1)).otherwise(f.col("committed")).alias("committed"),
        "commit_ts",
        "src_offset",
    )
    so_far = (
        Window.partitionBy(*_OF_GROUP)
        .orderBy("load", "ts", "is_sample", "src_offset")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    filled = known.unionByName(asked).select(
        *_OF_GROUP,
        "ts",
        "load",
        "log_end",
        "is_sample",
        f.last("committed", True).over(so_far).alias("committed"),
        f.last("commit_ts", True).over(so_far).alias("commit_ts"),
    )
    samples = filled.where((f.col("is_sample") == 1) & (f.col("committed") >= 0)).withColumn(
        "lag", f.greatest(f.col("log_end") - f.col("committed"), f.lit(0))
    )
    return samples.drop("is_sample").unionByName(ends, allowMissingColumns=True)


def positions(commits: DataFrame) -> DataFrame:
    """The newest commit of each group in each partition, unless it was removed."""
    newest = Window.partitionBy(*_OF_GROUP).orderBy(f.desc("load"), f.desc("commit_ts"), f.desc("src_offset"))
    placed = commits.withColumn("_place", f.row_number().over(newest))
    return placed.where((f.col("_place") == 1) & ~f.col("tombstone")).drop("_place")


def newest_snapshots(snapshots: DataFrame) -> DataFrame:
    """The newest snapshot of each group."""
    newest = Window.partitionBy("group_id").orderBy(f.desc("load"), f.desc("ts"), f.desc("src_offset"))
    return snapshots.withColumn("_place", f.row_number().over(newest)).where("_place = 1").drop("_place")


def _nulls(**columns: str) -> list[Any]:
    return [f.lit(None).cast(kind).alias(name) for name, kind in columns.items()]


_TIMED = "group_id string, topic string, partition int, ts timestamp, load int, log_end bigint, \
committed bigint, commit_ts timestamp, lag bigint, time_lag_ms bigint"
SEEN = "topic string, partition int, ts bigint, log_end bigint"


def time_lags(commits: DataFrame, log_ends: DataFrame, seen: DataFrame | None = None) -> DataFrame:
    """The samples of lag with ``time_lag_ms``, and, without a group, what the next refresh has to know.

    ``time_lag_ms``: how long the oldest record that the group had not consumed had been there for certain
    (``kohort.lake.ends_seen``). ``seen``: where the logs were seen to end before, as ``ends_carry`` has it.
    """
    schema = StructType.fromDDL(_TIMED)
    assert isinstance(schema, StructType)
    place = ("topic", "partition")

    def work(rows: Rows, before: Rows) -> Iterator[dict[str, Any]]:
        ends = EndsSeen((row["ts"], row["log_end"]) for row in before)
        # Of one time the row without a group comes first: the end is seen, then asked for.
        for row in sorted(rows, key=lambda row: (row["load"], row["ts"], row["group_id"] or "")):
            waited = 0
            if row["group_id"] is None:
                ends.see(row["ts"], row["log_end"])
                continue
            if row["lag"]:
                waited = max(0, row["ts"] - ends.since(row["committed"], row["ts"]))
            yield row | {"time_lag_ms": waited}
        log = dict.fromkeys(schema.names) | {name: (rows or before)[0][name] for name in place}
        yield from (log | {"ts": ts, "log_end": end} for ts, end in ends.points)

    def fold(rows: "pa.Table", known: "pa.Table") -> "pa.Table":
        return _arrow(work(rows.to_pylist(), known.to_pylist()), schema)

    samples = positions_at(commits, log_ends)
    millis = samples.withColumns({"ts": _millis("ts"), "commit_ts": _millis("commit_ts")})
    before = no_rows(samples.sparkSession, SEEN) if seen is None else seen
    return millis.groupBy(*place).cogroup(before.groupBy(*place)).applyInArrow(fold, schema)


def ends_carry(timed: DataFrame) -> DataFrame:
    """Where logs were seen to end: few rows for each partition."""
    return timed.where("group_id is null").select("topic", "partition", _millis("ts"), "log_end")


def _with_owner(samples: DataFrame, snapshots: DataFrame) -> DataFrame:
    """The newest snapshot at the time of each sample, and who has the partition in it."""
    stored = snapshots.select(
        "group_id", "load", f.col("src_offset").alias("snapshot"), "ts", f.size("members").alias("members")
    )
    moments = samples.select("group_id", "load", "ts").distinct().withColumn("is_moment", f.lit(1))
    both = stored.withColumn("is_moment", f.lit(0)).unionByName(moments, allowMissingColumns=True)
    so_far = (
        Window.partitionBy("group_id")
        .orderBy("load", "ts", "is_moment", "snapshot")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    newest = (
        both.withColumn("snapshot", f.last("snapshot", True).over(so_far))
        .withColumn("members", f.last("members", True).over(so_far))
        .where(f.col("is_moment") == 1)
        .select(
            "group_id", "load", "ts", "snapshot", (f.coalesce("members", f.lit(0)) > 0).alias("has_members")
        )
    )
    owned = (
        snapshots.select(
            "group_id", f.col("src_offset").alias("snapshot"), f.explode("members").alias("member")
        )
        .select("group_id", "snapshot", "member.member_id", f.explode("member.assigned").alias("one"))
        .select("group_id", "snapshot", "one.topic", "one.partition", f.col("member_id").alias("owner"))
        .dropDuplicates(["group_id", "snapshot", "topic", "partition"])
    )
    return samples.join(newest, ["group_id", "load", "ts"], "left").join(
        owned, ["group_id", "snapshot", "topic", "partition"], "left"
    )


# --- rebalances, members, findings --------------------------------------------------------------


def stories(
    snapshots: DataFrame, journal: DataFrame, partitions: Mapping[str, int] | None = None
) -> DataFrame:
    """What happened in each group: a row has a rebalance, a session of a member, or a finding.

    Rebalances come from the journal if it has the group, and are inferred from snapshots if not. The reason
    of a member's end is the journal's, where it has one. ``partitions``: how many each topic has.
    """
    of_journal = ("group_id", "event_id", "document", "kind", "member_id", _millis("ts"), "cause")
    events = journal.select(*of_journal).where("group_id is not null")
    gaps = journal.select(*of_journal).where("group_id is null").drop("group_id")
    heard = events.unionByName(events.select("group_id").distinct().crossJoin(gaps))
    history = snapshots.withColumns({"ts": _millis("ts"), "since": _millis("since")})
    counts = dict(partitions or {})
    schema = StructType()
    for name, table in _OF_STORY.items():
        schema.add(name, table.schema)

    def fold(snapshots: "pa.Table", journal: "pa.Table") -> "pa.Table":
        return _arrow(_story(snapshots.to_pylist(), journal.to_pylist(), counts), schema)

    return history.groupBy("group_id").cogroup(heard.groupBy("group_id")).applyInArrow(fold, schema)


def _story(snapshots: Rows, journal: Rows, partitions: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    snapshots.sort(key=lambda row: row["src_offset"])
    events = sorted({row["event_id"]: row for row in journal}.values(), key=lambda row: row["event_id"])
    group_id = (snapshots or events)[0]["group_id"]
    removals = {one["member_id"]: (one["ts"], one["cause"]) for one in events if one["kind"] == _REMOVED}
    rebalances = list(
        journaled_rebalances(group_id, [row["document"].encode() for row in events])
        if events
        else inferred_rebalances(snapshots)
    )
    of_members = list(sessions(snapshots, removals))
    last = snapshots[-1] if snapshots else {"members": [], "state": None}
    group = {"group_id": group_id, "members": last["members"], "state": last["state"]}
    group |= {"rebalances": rebalances, "sessions": of_members, "partitions": partitions}
    found = findings_of(group)
    for name, rows in (("rebalance", rebalances), ("session", of_members), ("finding", found)):
        yield from (dict.fromkeys(_OF_STORY) | {name: row} for row in rows)


def rebalances(stories: DataFrame) -> DataFrame:
    """The rebalances in stories."""
    return stories.where("rebalance is not null").select("rebalance.*")


def member_sessions(stories: DataFrame) -> DataFrame:
    """When each member id came and went, in stories."""
    return stories.where("session is not null").select("session.*")


def findings(stories: DataFrame) -> DataFrame:
    """What is worth a look, in stories."""
    return stories.where("finding is not null").select("finding.*")


# --- how folds run ------------------------------------------------------------------------------


def _millis(name: str) -> Any:  # noqa: ANN401  # a Column
    return f.unix_millis(name).alias(name)


def _by_group(
    frame: DataFrame,
    table: schemas.TableInfo,
    fold: Callable[[Rows], Iterable[Mapping[str, Any]]],
    schema: StructType | None = None,
) -> DataFrame:
    """The rows that ``fold`` makes of the rows of each group; times in them are milliseconds."""
    schema = table.schema if schema is None else schema

    def work(rows: "pa.Table") -> "pa.Table":
        return _arrow(fold(rows.to_pylist()), schema)

    return frame.groupBy("group_id").applyInArrow(work, schema)


def _arrow(rows: Iterable[Mapping[str, Any]], schema: StructType) -> "pa.Table":
    from pyarrow import lib as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema, timezone="UTC")
    made = list(rows)
    arrays = [
        pa.array([_micros(row[field.name], field.type) for row in made], field.type) for field in wanted
    ]
    return pa.Table.from_arrays(arrays, schema=wanted)


def _micros(value: Any, kind: "pa.DataType") -> Any:  # noqa: ANN401  # any value of any column
    """Times in milliseconds as Arrow has them, also those in a struct."""
    from pyarrow import lib as pa

    if value is None:
        return None
    if isinstance(kind, pa.TimestampType):
        return value * 1_000
    if isinstance(kind, pa.StructType):
        return {field.name: _micros(value[field.name], field.type) for field in kind}
    return value
