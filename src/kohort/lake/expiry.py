"""When a group's offsets expire if nothing changes: numbered rules, in SQL. offsets-and-log 6 has Kafka's."""

from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kohort.lake import schemas


class ExpiryRule(NamedTuple):
    """One rule: the SQL condition, from when on the retention counts, and what it means."""

    number: int
    condition: str
    counts_from: str
    meaning: str


_NEVER = "cast(null as timestamp)"
RULES: Final = (
    ExpiryRule(1, "array_contains(topics, topic)", _NEVER, "kept: a member subscribes to the topic"),
    ExpiryRule(
        2, "group_type = 'classic' AND has_members AND size(topics) = 0", _NEVER,
        "kept: the group has members, and no topic that they subscribe to is known",
    ),
    ExpiryRule(
        3, "expire_ts IS NOT NULL", _NEVER, "the commit says itself until when it is kept (old clients)",
    ),
    ExpiryRule(
        4, "group_type = 'classic' AND state = 'Empty' AND since IS NOT NULL", "since",
        "a classic group without members: the retention counts from when it became empty",
    ),
    ExpiryRule(
        5, "TRUE", "commit_ts",
        "else the retention counts from the commit: a topic without subscribers, a group that never had "
        "members, a KIP-848 group",
    ),
)  # fmt: skip


def offset_expiry(commits: DataFrame, snapshots: DataFrame, retention_ms: int) -> DataFrame:
    """For each committed offset that is there: when it expires if the group stays as it is.

    ``expires`` is null while it is kept. A broker looks for expired offsets every ten minutes: an offset may
    be there that much longer.
    """
    place = ("group_id", "topic", "partition")
    offsets = _newest(commits, *place).where("not tombstone")
    topics = f.array_union(f.flatten("members.subscribed"), f.flatten("members.assigned")["topic"])
    groups = _newest(snapshots, "group_id").select(
        "group_id",
        "group_type",
        "state",
        "since",
        (f.size("members") > 0).alias("has_members"),
        topics.alias("topics"),
    )
    rule, counts_from = f.lit(RULES[-1].number), f.expr(RULES[-1].counts_from)
    for each in reversed(RULES[:-1]):
        fits = f.expr(each.condition)
        rule = f.when(fits, f.lit(each.number)).otherwise(rule)
        counts_from = f.when(fits, f.expr(each.counts_from)).otherwise(counts_from)
    over = f.timestamp_millis(f.unix_millis("counts_from") + f.lit(retention_ms))
    return (
        offsets.join(groups, "group_id", "left")
        .withColumns({"rule": rule, "counts_from": counts_from, "retention_ms": f.lit(retention_ms)})
        .withColumn("expires", f.when(f.col("rule") == _OWN, f.col("expire_ts")).otherwise(over))
        .select(*schemas.OFFSET_EXPIRY.columns)
    )


_OWN: Final = 3


def _newest(frame: DataFrame, *key: str) -> DataFrame:
    """The last row of each key in the order of its partition of ``__consumer_offsets``."""
    newest = Window.partitionBy(*key).orderBy(f.desc("src_offset"))
    return frame.withColumn("_place", f.row_number().over(newest)).where("_place = 1").drop("_place")
