"""The columns of a decoded record of ``__consumer_offsets``. Light: Spark imports it in four processes."""

from typing import Final

COLUMNS: Final = {
    "src_partition": "int",
    "src_offset": "bigint",
    "ts": "timestamp",
    "kind": "string",
    "record_type": "int",
    "version": "int",
    "tombstone": "boolean",
    "group_id": "string",
    "member_id": "string",
    "topic": "string",
    "partition": "int",
    "topic_id": "string",
    "committed": "bigint",
    "leader_epoch": "int",
    "metadata": "string",
    "commit_ts": "timestamp",
    "expire_ts": "timestamp",
    "producer_id": "bigint",
    "details": "string",
    "key": "binary",
    "value": "binary",
    "problem": "string",
}
"""Names and Spark types, in order. docs/reference/group-lake.md says what each means."""

DDL: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

OFFSET_COMMIT: Final = "offset_commit"
GROUP_METADATA: Final = "group_metadata"
CONTROL: Final = "control"
UNKNOWN: Final = "unknown"
MALFORMED: Final = "malformed"
