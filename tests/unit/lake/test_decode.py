"""Records of ``__consumer_offsets`` as columns: the fast way, the slow way, and hostile bytes."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.codec.compiled import encode
from kohort.lake.decode import SCHEMA, SegmentSlice, decode_table
from kohort.lake.record_rows import RawRecord, row_of
from kohort.records.batch import PLAIN, BatchFields, NewRecord, build_batch
from kohort.records.columns.table import find_batches
from kohort.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.records.offsets_topic import encode_key

AT = 1_700_000_000_000
IDS = bytes(range(16))
ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
COMMIT_KEY = "0001 0001 67 0001 74 00000003"

EVERYTHING = SegmentSlice(7)
Pair = tuple[bytes | None, bytes | None]


def decoded(
    *pairs: Pair, fields: BatchFields = PLAIN, wanted: SegmentSlice = EVERYTHING
) -> list[dict[str, Any]]:
    blob = build_batch([NewRecord(AT, key, value) for key, value in pairs], fields)
    rows = [row for batch in decode_table(find_batches(blob), wanted) for row in batch.to_pylist()]
    rows.sort(key=lambda row: row["src_offset"])
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def one(key: str, value: str | None) -> dict[str, Any]:
    (row,) = decoded((bytes.fromhex(key), None if value is None else bytes.fromhex(value)))
    for name in ("src_partition", "src_offset", "ts"):
        row.pop(name)
    for name in ("commit_ts", "expire_ts"):
        if name in row:
            row[name] = round(row[name].timestamp() * 1_000) - AT
    return row


COMMIT = {"kind": "offset_commit", "record_type": 1, "group_id": "g", "topic": "t", "partition": 3}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0000 000000000000002a 0000 0000018bcfe56800", {"version": 0, "leader_epoch": -1, "metadata": ""}),
        (
            "0001 000000000000002a 0000 0000018bcfe56800 0000018bcfee8fc0",
            {"version": 1, "leader_epoch": -1, "metadata": "", "expire_ts": 600_000},
        ),
        (
            "0002 000000000000002a 0001 6d 0000018bcfe56800",
            {"version": 2, "leader_epoch": -1, "metadata": "m"},
        ),
        (
            "0003 000000000000002a ffffffff 0000 0000018bcfe56800",
            {"version": 3, "leader_epoch": -1, "metadata": ""},
        ),
        (
            "0004 000000000000002a 00000005 026d 0000018bcfe56800 00",
            {"version": 4, "leader_epoch": 5, "metadata": "m"},
        ),
        (
            "0004 000000000000002a 00000005 026d 0000018bcfe56800 01 00 10 000102030405060708090a0b0c0d0e0f",
            {"version": 4, "leader_epoch": 5, "metadata": "m", "topic_id": ID_TEXT},
        ),
    ],
)
def test_a_commit_of_every_version_has_its_columns(value: str, expected: dict[str, Any]) -> None:
    assert one(COMMIT_KEY, value) == COMMIT | {"tombstone": False, "committed": 42, "commit_ts": 0} | expected


def test_a_commit_of_the_old_key_type_is_a_commit() -> None:
    row = one("0000 0001 67 0001 74 00000003", "0000 000000000000002a 0000 0000018bcfe56800")
    assert (row["kind"], row["record_type"], row["committed"]) == ("offset_commit", 0, 42)


MEMBER = {"group_id": "g", "member_id": "m1"}
OWNED = [{"topicId": ID_TEXT, "partitions": [0, 1]}]


@pytest.mark.parametrize(
    ("key", "value", "columns", "details"),
    [
        (
            "0002 0001 67",
            "0003 0000 00000000 ffff ffff 0000018bcfe56800 00000000",
            {"kind": "group_metadata", "record_type": 2, "version": 3, "group_id": "g"},
            {
                "protocolType": "",
                "generation": 0,
                "protocol": None,
                "leader": None,
                "currentStateTimestamp": AT,
                "members": [],
            },
        ),
        (
            "0003 0001 67",
            "0000 00000007 01 00 08 00000000000004d2",
            {"kind": "consumer_group_metadata", "record_type": 3, "version": 0, "group_id": "g"},
            {"epoch": 7, "metadataHash": 1234},
        ),
        (
            "0004 0001 67",
            "0000 02 000102030405060708090a0b0c0d0e0f 0274 00000001 02 00000000 02 0272 00 00 00",
            {"kind": "consumer_group_partition_metadata", "record_type": 4, "version": 0, "group_id": "g"},
            {
                "topics": [
                    {
                        "topicId": ID_TEXT,
                        "topicName": "t",
                        "numPartitions": 1,
                        "partitionMetadata": [{"partition": 0, "racks": ["r"]}],
                    }
                ]
            },
        ),
        (
            "0005 0001 67 0002 6d31",
            "0000 00 00 0263 0b2f3132372e302e302e31 02 0274 01 0000afc8 00 00",
            {"kind": "consumer_group_member_metadata", "record_type": 5, "version": 0} | MEMBER,
            {
                "instanceId": None,
                "rackId": None,
                "clientId": "c",
                "clientHost": "/127.0.0.1",
                "subscribedTopicNames": ["t"],
                "subscribedTopicRegex": "",
                "rebalanceTimeoutMs": 45_000,
                "serverAssignor": None,
                "classicMemberMetadata": None,
            },
        ),
        (
            "0006 0001 67",
            "0000 00000007 00",
            {
                "kind": "consumer_group_target_assignment_metadata",
                "record_type": 6,
                "version": 0,
                "group_id": "g",
            },
            {"assignmentEpoch": 7, "assignmentTimestamp": 0},
        ),
        (
            "0007 0001 67 0002 6d31",
            "0000 02 000102030405060708090a0b0c0d0e0f 03 00000000 00000001 00 00",
            {"kind": "consumer_group_target_assignment_member", "record_type": 7, "version": 0} | MEMBER,
            {"topicPartitions": OWNED},
        ),
        (
            "0008 0001 67 0002 6d31",
            "0000 00000002 00000001 00 02 000102030405060708090a0b0c0d0e0f 03 00000000 00000001 00 01 00",
            {"kind": "consumer_group_current_member_assignment", "record_type": 8, "version": 0} | MEMBER,
            {
                "memberEpoch": 2,
                "previousMemberEpoch": 1,
                "state": 0,
                "assignedPartitions": OWNED,
                "partitionsPendingRevocation": [],
            },
        ),
        (
            "0010 0001 67 0003 612e2a",
            "0000 02 04616263 0000000000000063 0000018bcfe56800 00",
            {
                "kind": "consumer_group_regular_expression",
                "record_type": 16,
                "version": 0,
                "group_id": "g",
                "metadata": "a.*",
            },
            {"topics": ["abc"], "version": 99, "timestamp": AT},
        ),
    ],
)
def test_every_other_type_has_its_value_as_kafka_prints_it(
    key: str, value: str, columns: dict[str, Any], details: dict[str, Any]
) -> None:
    row = one(key, value)
    assert json.loads(row.pop("details")) == details
    assert row == columns | {"tombstone": False}
    assert one(key, None) == {name: of for name, of in columns.items() if name != "version"} | {
        "tombstone": True
    }


ASSIGNMENT = bytes.fromhex("0001 00000001 0001 74 00000002 00000000 00000001 ffffffff")


@pytest.mark.parametrize("version", range(GroupMetadataValue.versions.last + 1))
def test_a_classic_group_of_every_version_has_the_partitions_of_its_members(version: int) -> None:
    member = MemberMetadata("m1", None, "c", "/h", -1 if version == 0 else 9, 5, b"\x00", ASSIGNMENT)
    since = -1 if version < 2 else AT
    value = GroupMetadataValue("consumer", 4, "range", "m1", since, [member])
    body = version.to_bytes(2, "big") + encode(value, version)
    (row,) = decoded((encode_key(GroupMetadataKey("g")), body))
    found = json.loads(row["details"])
    assert found["members"][0]["partitions"] == [["t", 0], ["t", 1]]
    assert (row["version"], found["generation"], found["currentStateTimestamp"]) == (version, 4, since)


def test_types_that_are_not_known_are_kept_with_their_bytes() -> None:
    key, value = bytes.fromhex("0011 0001 67"), b"anything"
    (row,) = decoded((key, value))
    assert (row["kind"], row["record_type"], row["key"], row["value"]) == ("unknown", 17, key, value)
    assert "17" in row["problem"]


def test_a_version_to_come_is_kept_with_its_bytes() -> None:
    key, value = (
        bytes.fromhex(COMMIT_KEY),
        bytes.fromhex("0005 000000000000002a 00000005 026d 0000018bcfe56800 00"),
    )
    (row,) = decoded((key, value))
    assert (row["kind"], row["version"], row["value"]) == ("offset_commit", 5, value)
    assert "version 5" in row["problem"]


def test_transactions_keep_their_producer_and_their_marker() -> None:
    key, value = (
        bytes.fromhex(COMMIT_KEY),
        bytes.fromhex("0003 000000000000002a ffffffff 0000 0000018bcfe56800"),
    )
    (pending,) = decoded((key, value), fields=BatchFields(producer_id=9, transactional=True))
    assert (pending["kind"], pending["producer_id"]) == ("offset_commit", 9)
    for kind, name in ((0, "ABORT"), (1, "COMMIT")):
        control = BatchFields(producer_id=9, transactional=True, control=True)
        (marker,) = decoded((b"\x00\x00\x00" + bytes([kind]), b"\x00" * 6), fields=control)
        assert (marker["kind"], marker["producer_id"], marker["details"]) == ("control", 9, name)


def test_a_slice_leaves_out_what_is_before_and_behind_it() -> None:
    key = bytes.fromhex(COMMIT_KEY)
    rows = decoded(*[(key, None), (b"\x00\x02\x00\x01g", None)] * 5, wanted=SegmentSlice(3, 2, 7))
    assert [(row["src_partition"], row["src_offset"]) for row in rows] == [(3, n) for n in range(2, 7)]


GOOD = [
    bytes.fromhex(text)
    for text in (
        "0001 000000000000002a 0001 6d 0000018bcfe56800 0000018bcfee8fc0",
        "0003 000000000000002a ffffffff 0002 6d6e 0000018bcfe56800",
        "0004 000000000000002a 00000005 026d 0000018bcfe56800 01 00 10 000102030405060708090a0b0c0d0e0f",
    )
]


def slow(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """The same by the way that looks at one record at a time."""
    from kohort.lake.decode import rows_batch

    rows = [row_of(RawRecord(number, AT, *pair)) for number, pair in enumerate(pairs)]
    found = rows_batch(rows, 7).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def test_the_fast_way_and_the_slow_way_agree_on_every_damaged_byte() -> None:
    key = bytes.fromhex(COMMIT_KEY)
    pairs: list[Pair] = [(key, value[:cut]) for value in GOOD for cut in range(len(value) + 1)]
    pairs += [(key[:cut], GOOD[0]) for cut in range(len(key) + 1)]
    for value in GOOD:
        for at in range(len(value)):
            pairs += [
                (key, value[:at] + bytes([byte]) + value[at + 1 :]) for byte in (0, 1, 0x7F, 0x80, 0xFF)
            ]
    for at in range(len(key)):
        pairs += [(key[:at] + bytes([byte]) + key[at + 1 :], GOOD[1]) for byte in (0, 1, 0x7F, 0x80, 0xFF)]
    assert decoded(*pairs) == slow(pairs)


names = st.text(max_size=200)
numbers = st.integers(-(2**63), 2**63 - 1)
ids = st.just(bytes(16)) | st.binary(min_size=16, max_size=16)
commits = st.tuples(
    st.builds(OffsetCommitKey, names, names, st.integers(-(2**31), 2**31 - 1)),
    st.builds(OffsetCommitValue, numbers, st.integers(-(2**31), 2**31 - 1), names, numbers, numbers, ids),
    st.integers(0, 4),
)


@given(st.lists(commits | st.tuples(st.binary(max_size=40), st.binary(max_size=60)), min_size=1, max_size=40))
def test_the_fast_way_and_the_slow_way_agree_on_any_record(records: Sequence[tuple[Any, ...]]) -> None:
    pairs: list[Pair] = [
        (encode_key(each[0]), each[2].to_bytes(2, "big") + encode(each[1], each[2]))
        if len(each) == 3
        else each
        for each in records
    ]
    assert decoded(*pairs) == slow(pairs)


def test_the_columns_are_the_declared_ones() -> None:
    assert SCHEMA.names[:2] == ["src_partition", "src_offset"]
    assert len(SCHEMA.names) == len(set(SCHEMA.names))
