"""The tables of the lake: their columns, and what a row is. The reference page is made from this."""

from typing import TYPE_CHECKING, Final, NamedTuple

from kohort.lake.columns import DDL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PARTITIONS = "array<struct<topic:string,partition:int>>"
MEMBERS: Final = (
    "array<struct<member_id:string,instance_id:string,client_id:string,host:string,"
    f"session_timeout_ms:int,subscribed:array<string>,assigned:{_PARTITIONS}>>"
)


class TableInfo(NamedTuple):
    """A table: its columns as Spark writes them, the column that gives its date, and what a row is."""

    name: str
    ddl: str
    time: str
    meaning: str

    @property
    def columns(self) -> list[str]:
        return [column.partition(" ")[0] for column in self.ddl.split(", ")]  # no blanks inside types

    @property
    def schema(self) -> "StructType":
        from pyspark.sql.types import StructType

        schema = StructType.fromDDL(self.ddl)
        assert isinstance(schema, StructType), "the text names columns"
        return schema


RECORDS: Final = TableInfo(
    "records", DDL, "ts", "a record of `__consumer_offsets`, decoded; of unknown types its bytes"
)
JOURNAL: Final = TableInfo(
    "journal",
    "event_id bigint, ts timestamp, group_id string, generation int, kind string, member_id string, "
    "cause string, rule string, numbers map<string,double>, document string",
    "ts",
    "an event of a group with its cause, from `__kohort_journal`; `rule` is the kind of the cause",
)
LOG_ENDS: Final = TableInfo(
    "log_ends",
    "ts timestamp, topic string, partition int, log_start bigint, log_end bigint, topic_id string",
    "ts",
    "where the log of a partition began and ended at a moment",
)
OFFSET_COMMITS: Final = TableInfo(
    "offset_commits",
    "group_id string, topic string, partition int, committed bigint, leader_epoch int, metadata string, "
    "commit_ts timestamp, expire_ts timestamp, tombstone boolean, src_partition int, src_offset bigint",
    "commit_ts",
    "a committed offset, or (tombstone) that one was removed; of a transaction only if it was committed",
)
GROUP_SNAPSHOTS: Final = TableInfo(
    "group_snapshots",
    "group_id string, protocol string, group_type string, state string, generation int, leader string, "
    f"members {MEMBERS}, since timestamp, ts timestamp, src_partition int, src_offset bigint",
    "ts",
    "a group as it was stored; `since`: when the coordinator began to wait for the assignment",
)
LAG_SAMPLES: Final = TableInfo(
    "lag_samples",
    "ts timestamp, group_id string, topic string, partition int, committed bigint, commit_ts timestamp, "
    "log_end bigint, lag bigint, time_lag_ms bigint, owner string, has_members boolean",
    "ts",
    "how far a group was behind in a partition when its log end was seen",
)
LAG_STATUS: Final = TableInfo(
    "lag_status",
    "ts timestamp, group_id string, topic string, partition int, status string, rule int, since timestamp, "
    "lag bigint, window_n int",
    "ts",
    "the verdict on the last ten samples up to this one, by the numbered rules",
)
REBALANCES: Final = TableInfo(
    "rebalances",
    "group_id string, rebalance_id bigint, start_ts timestamp, end_ts timestamp, gen_from int, gen_to int, "
    "trigger string, cause string, inferred boolean, members_before int, members_after int, "
    "partitions_moved int, partitions_idle_ms bigint, join_ms bigint, sync_ms bigint, result string",
    "end_ts",
    "a rebalance with its cause: from the journal, or inferred from two snapshots",
)
MEMBER_SESSIONS: Final = TableInfo(
    "member_sessions",
    "group_id string, member_id string, instance_id string, client_id string, joined timestamp, "
    "left timestamp, reason string, rebalances int",
    "joined",
    "from when to when a member id was in the generations of a group; `left` is null while it is there",
)
FINDINGS: Final = TableInfo(
    "findings",
    "group_id string, finding string, rule int, since timestamp, until timestamp, subject string, "
    "sentence string",
    "since",
    "something in a group that is worth a look, by the numbered rules",
)

LANDED: Final = (RECORDS, JOURNAL, LOG_ENDS)
DERIVED: Final = (
    OFFSET_COMMITS, GROUP_SNAPSHOTS, LAG_SAMPLES, LAG_STATUS, REBALANCES, MEMBER_SESSIONS, FINDINGS,
)  # fmt: skip
OFFSET_EXPIRY: Final = TableInfo(
    "offset_expiry",
    "group_id string, topic string, partition int, committed bigint, commit_ts timestamp, rule int, "
    "counts_from timestamp, retention_ms bigint, expires timestamp",
    "expires",
    "a committed offset and when it expires if the group stays as it is; `expires` is null while it is kept",
)
TABLES: Final = {table.name: table for table in (*LANDED, *DERIVED)}
VIEWS: Final = {OFFSET_EXPIRY.name: OFFSET_EXPIRY}
"""Made when they are asked for, and not stored."""
