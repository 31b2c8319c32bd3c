"""The records of ``__consumer_offsets``, against bytes that Kafka writes."""

import pytest

from kohort.model.ids import TopicId
from kohort.records.errors import MalformedRecordError, UnsupportedValueError
from kohort.records.group_records import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionMetadata,
    RecordKey,
    RecordValue,
    TopicMetadata,
)
from kohort.records.offsets_topic import (
    VALUES,
    UnknownKey,
    decode_commit,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    read_names,
)

T = 1_700_000_000_000
TOPIC_ID = TopicId(bytes(range(16)))
T_HEX = "0000018bcfe56800"

OFFSET_VALUES = [
    pytest.param(
        "0001 000000000000002a 0000 0000018bcfe56800 0000018bcfee8fc0",
        OffsetCommitValue(42, commit_timestamp=T, expire_timestamp=T + 600_000),
        id="v1",
    ),
    pytest.param(
        "0003 000000000000002a ffffffff 0000 0000018bcfe56800",
        OffsetCommitValue(42, commit_timestamp=T),
        id="v3",
    ),
    pytest.param(
        "0004 000000000000002a 00000005 026d 0000018bcfe56800 01 00 10 000102030405060708090a0b0c0d0e0f",
        OffsetCommitValue(42, 5, "m", T, topic_id=TOPIC_ID),
        id="v4 with a topic id",
    ),
    pytest.param(
        "0003 000000000000002a 00000005 0002 c3a9 0000018bcfe56800",
        OffsetCommitValue(42, 5, "é", T),
        id="v3 with metadata",
    ),
]
OLD_OFFSET_VALUES = [
    pytest.param(
        "0004 000000000000002a 00000005 026d 0000018bcfe56800 00",
        OffsetCommitValue(42, 5, "m", T),
        id="v4 without a topic id",
    ),
    pytest.param(f"0000 000000000000002a 0001 6d {T_HEX}", OffsetCommitValue(42, -1, "m", T), id="v0"),
    pytest.param(f"0002 000000000000002a 0001 6d {T_HEX}", OffsetCommitValue(42, -1, "m", T), id="v2"),
    pytest.param(
        f"0003 000000000000002a ffffffff 0000 {T_HEX} 77", OffsetCommitValue(42, -1, "", T), id="trailing"
    ),
    pytest.param(
        f"0004 000000000000002a 00000005 01 {T_HEX} 01 09 02 abcd",
        OffsetCommitValue(42, 5, "", T),
        id="v4 with an unknown tag",
    ),
]

MEMBER = MemberMetadata(
    member_id="m-1",
    group_instance_id=None,
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=bytes.fromhex("0000 00000001 0001 74 ffffffff"),
    assignment=bytes.fromhex("0000 00000001 0001 74 00000001 00000000 ffffffff"),
)
GROUP = GroupMetadataValue("consumer", 1, "range", "m-1", T, [MEMBER])
GROUP_HEX = """
    0003 0008 636f6e73756d6572 00000001 0005 72616e6765 0003 6d2d31 0000018bcfe56800 00000001
    0003 6d2d31 ffff 0001 63 000a 2f3132372e302e302e31 000493e0 0000afc8
    0000000d 0000 00000001 0001 74 ffffffff
    00000015 0000 00000001 0001 74 00000001 00000000 ffffffff
"""
EMPTY_GROUP = GroupMetadataValue("", 0, None, None, T, [])
EMPTY_GROUP_HEX = "0003 0000 00000000 ffff ffff 0000018bcfe56800 00000000"


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        (OffsetCommitKey("g", "t", 3), "0001 0001 67 0001 74 00000003"),
        (GroupMetadataKey("g"), "0002 0001 67"),
        (GroupMetadataKey("g1"), "0002 0002 6731"),
    ],
)
def test_keys_are_the_bytes_kafka_writes(key: OffsetCommitKey | GroupMetadataKey, encoded: str) -> None:
    assert encode_key(key) == bytes.fromhex(encoded)
    assert decode_key(bytes.fromhex(encoded)) == key


def test_a_legacy_offset_key_reads_like_the_current_one() -> None:
    assert decode_key(bytes.fromhex("0000 0001 67 0001 74 00000003")) == OffsetCommitKey("g", "t", 3)


@pytest.mark.parametrize("kind", [9, 15, 17, 99, -1])
def test_a_key_of_another_type_is_told_by_its_number(kind: int) -> None:
    assert decode_key(kind.to_bytes(2, "big", signed=True) + b"\x00") == UnknownKey(kind)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\x00",
        b"\x00\x01",
        b"\x00\x02\x00",
        b"\x00\x02\xff\xff",
        b"\x00\x02\xff\xfe",
        b"\x00\x02\x00\x02g",
    ],
)
def test_a_key_that_is_missing_or_cut_off_is_malformed(key: bytes | None) -> None:
    with pytest.raises(MalformedRecordError):
        decode_key(key)


def test_a_key_whose_name_is_no_text_is_malformed() -> None:
    with pytest.raises(MalformedRecordError, match="malformed"):
        decode_key(b"\x00\x02\x00\x01\xff")


def test_a_name_too_long_to_be_stored_is_refused() -> None:
    assert len(encode_key(GroupMetadataKey("g" * 32_767))) == 32_771
    with pytest.raises(MalformedRecordError, match="32768 bytes"):
        encode_key(GroupMetadataKey("g" * 32_768))


@pytest.mark.parametrize("names", [("g", "t"), ("gt", ""), ("", ""), ("grüppe", "a.b")])
@pytest.mark.parametrize("kind", [b"\x00\x00", b"\x00\x01"])
def test_group_and_topic_are_read_from_what_offset_keys_begin_with(
    names: tuple[str, str], kind: bytes
) -> None:
    key = encode_key(OffsetCommitKey(*names, 7))
    assert read_names(kind + key[2:-4]) == names


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"\x00",
        b"\x00\x01",
        b"\x00\x01\x00\x01g",
        b"\x00\x01\x00\x01g\x00\x01",
        b"\x00\x01\x00\x01g\x00\x01tt",  # a key with bytes behind its partition
        b"\x00\x01\xff\xff\x00\x01t",
        b"\x00\x01\x00\x01g\xff\xff",
        b"\x00\x01\x00\x01\xff\x00\x01t",  # no text
        b"\x00\x02\x00\x01g\x00\x01t",
        b"\x00\x03\x00\x01g\x00\x01t",
    ],
)
def test_nothing_is_read_from_what_is_not_the_whole_beginning_of_an_offset_key(beginning: bytes) -> None:
    assert read_names(beginning) is None


@pytest.mark.parametrize(("encoded", "value"), OFFSET_VALUES)
def test_offset_values_are_the_bytes_kafka_writes(encoded: str, value: OffsetCommitValue) -> None:
    assert encode_value(value) == bytes.fromhex(encoded)


@pytest.mark.parametrize(("encoded", "value"), OFFSET_VALUES + OLD_OFFSET_VALUES)
def test_every_version_of_an_offset_value_is_read(encoded: str, value: OffsetCommitValue) -> None:
    assert decode_commit(bytes.fromhex(encoded)) == value


def test_an_expiry_drops_the_leader_epoch_and_the_topic_id() -> None:
    value = OffsetCommitValue(42, 5, "", T, T + 1, TOPIC_ID)
    assert decode_commit(encode_value(value)) == OffsetCommitValue(42, -1, "", T, T + 1)


@pytest.mark.parametrize("encoded", [param.values[0] for param in OFFSET_VALUES + OLD_OFFSET_VALUES[:-2]])
def test_an_offset_value_cut_off_anywhere_is_malformed(encoded: object) -> None:
    whole = bytes.fromhex(str(encoded))
    for length in range(len(whole)):
        with pytest.raises(MalformedRecordError):
            decode_commit(whole[:length])


@pytest.mark.parametrize("version", [5, 9, -1])
def test_an_offset_value_of_an_unknown_version_is_not_guessed(version: int) -> None:
    value = version.to_bytes(2, "big", signed=True) + bytes(30)
    with pytest.raises(UnsupportedValueError, match=f"version {version}"):
        decode_commit(value)


def test_null_metadata_and_a_short_topic_id_are_malformed() -> None:
    with pytest.raises(MalformedRecordError, match="metadata"):
        decode_commit(bytes.fromhex(f"0003 000000000000002a ffffffff ffff {T_HEX}"))
    with pytest.raises(MalformedRecordError, match="OffsetCommitValue v4"):
        decode_commit(bytes.fromhex(f"0004 000000000000002a 00000005 01 {T_HEX} 01 00 02 abcd"))


@pytest.mark.parametrize(("encoded", "value"), [(GROUP_HEX, GROUP), (EMPTY_GROUP_HEX, EMPTY_GROUP)])
def test_group_values_are_the_bytes_kafka_writes(encoded: str, value: GroupMetadataValue) -> None:
    assert encode_value(value) == bytes.fromhex(encoded)
    assert decode_value(GroupMetadataValue, bytes.fromhex(encoded)) == value


@pytest.mark.parametrize(
    ("version", "timestamp", "timeouts"),
    [(0, "", "0000afc8"), (1, "", "000493e0 0000afc8"), (2, T_HEX, "000493e0 0000afc8")],
)
def test_older_group_values_lack_fields(version: int, timestamp: str, timeouts: str) -> None:
    group = f"{version:04x} 0001 70 00000002 ffff 0001 6c {timestamp} 00000001"
    encoded = f"{group} 0001 6d 0001 63 0001 68 {timeouts} 00000001 73 00000001 61"
    member = MemberMetadata("m", None, "c", "h", 300_000 if version else -1, 45_000, b"s", b"a")
    expected = GroupMetadataValue("p", 2, None, "l", T if version == 2 else -1, [member])
    assert decode_value(GroupMetadataValue, bytes.fromhex(encoded)) == expected


def test_the_flexible_group_value_is_read_and_its_tags_are_skipped() -> None:
    group = f"0004 02 70 00000002 00 02 6c {T_HEX} 02"
    encoded = f"{group} 02 6d 02 69 02 63 02 68 000493e0 0000afc8 02 73 01 01 05 01 ff 00"
    member = MemberMetadata("m", "i", "c", "h", 300_000, 45_000, b"s", b"")
    assert decode_value(GroupMetadataValue, bytes.fromhex(encoded)) == GroupMetadataValue(
        "p", 2, None, "l", T, [member]
    )


def test_a_group_value_cut_off_anywhere_is_malformed() -> None:
    whole = bytes.fromhex(GROUP_HEX)
    for length in range(len(whole)):
        with pytest.raises(MalformedRecordError):
            decode_value(GroupMetadataValue, whole[:length])


@pytest.mark.parametrize(
    "encoded",
    [
        "0003 ffff 00000000 ffff ffff 0000018bcfe56800 00000000",
        "0003 0000 00000000 ffff ffff 0000018bcfe56800 7fffffff",
        "0003 0000 00000000 ffff ffff 0000018bcfe56800 ffffffff",
        "0003 0000 00000000 ffff ffff 0000018bcfe56800 00000001"
        " 0000 ffff 0000 0000 00000001 00000001 ffffffff 00000000",
    ],
)
def test_a_group_value_that_contradicts_itself_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedRecordError):
        decode_value(GroupMetadataValue, bytes.fromhex(encoded))


def test_a_group_value_of_an_unknown_version_is_not_guessed() -> None:
    with pytest.raises(UnsupportedValueError, match="version 5"):
        decode_value(GroupMetadataValue, b"\x00\x05" + bytes(30))


TOPIC = bytes(range(16))
MEMBER_VALUE = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=["t"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=45_000,
    server_assignor=None,
)
CLASSIC = ClassicMemberMetadata(45_000, [ClassicProtocol("range", b"s")])
ASSIGNED = [AssignedPartitions(TOPIC, [0, 1])]
ASSIGNED_HEX = "02 000102030405060708090a0b0c0d0e0f 03 00000000 00000001 00"
MEMBER_HEX = "0000 00 00 0263 0b2f3132372e302e302e31 02 0274 01 0000afc8 00"


@pytest.mark.parametrize(
    ("key", "key_hex", "value", "value_hex"),
    [
        (ConsumerGroupMetadataKey("g"), "0003 0001 67", ConsumerGroupMetadataValue(7), "0000 00000007 00"),
        (
            ConsumerGroupMetadataKey("g"),
            "0003 0001 67",
            ConsumerGroupMetadataValue(7, 1234),
            "0000 00000007 01 00 08 00000000000004d2",
        ),
        (
            ConsumerGroupPartitionMetadataKey("g"),
            "0004 0001 67",
            ConsumerGroupPartitionMetadataValue(
                [TopicMetadata(TOPIC, "t", 1, [PartitionMetadata(0, ["r"])])]
            ),
            "0000 02 000102030405060708090a0b0c0d0e0f 0274 00000001 02 00000000 02 0272 00 00 00",
        ),
        (
            ConsumerGroupMemberMetadataKey("g", "m1"),
            "0005 0001 67 0002 6d31",
            MEMBER_VALUE,
            f"{MEMBER_HEX} 01 00 01 00",
        ),
        (
            ConsumerGroupMemberMetadataKey("g", "m1"),
            "0005 0001 67 0002 6d31",
            ConsumerGroupMemberMetadataValue(
                None, None, "c", "/127.0.0.1", ["t"], "", 45_000, None, classic_member_metadata=CLASSIC
            ),
            f"{MEMBER_HEX} 01 00 10 01 0000afc8 02 0672616e6765 0273 00 00",
        ),
        (
            ConsumerGroupTargetAssignmentMetadataKey("g"),
            "0006 0001 67",
            ConsumerGroupTargetAssignmentMetadataValue(7),
            "0000 00000007 00",
        ),
        (
            ConsumerGroupTargetAssignmentMemberKey("g", "m1"),
            "0007 0001 67 0002 6d31",
            ConsumerGroupTargetAssignmentMemberValue(ASSIGNED),
            f"0000 {ASSIGNED_HEX} 00",
        ),
        (
            ConsumerGroupCurrentMemberAssignmentKey("g", "m1"),
            "0008 0001 67 0002 6d31",
            ConsumerGroupCurrentMemberAssignmentValue(2, 1, 0, ASSIGNED, []),
            f"0000 00000002 00000001 00 {ASSIGNED_HEX} 01 00",
        ),
        (
            ConsumerGroupRegularExpressionKey("g", "a.*"),
            "0010 0001 67 0003 612e2a",
            ConsumerGroupRegularExpressionValue(["abc"], 99, T),
            f"0000 02 04616263 0000000000000063 {T_HEX} 00",
        ),
    ],
)
def test_records_of_consumer_groups_are_the_bytes_kafka_writes(
    key: RecordKey, key_hex: str, value: RecordValue, value_hex: str
) -> None:
    assert encode_key(key) == bytes.fromhex(key_hex)
    assert decode_key(bytes.fromhex(key_hex)) == key
    assert encode_value(value) == bytes.fromhex(value_hex)
    assert decode_value(VALUES[type(key)], bytes.fromhex(value_hex)) == value


def test_a_member_that_says_nothing_of_the_classic_protocol_is_of_the_consumer_protocol() -> None:
    """Kafka writes a null, and reads a value without it as an empty struct: a classic member."""
    assert decode_value(ConsumerGroupMemberMetadataValue, bytes.fromhex(f"{MEMBER_HEX} 00")) == MEMBER_VALUE


def test_tags_that_a_newer_kafka_adds_are_skipped() -> None:
    with_time = bytes.fromhex("0000 00000007 02 00 08 0000018bcfe56800 05 01 ff")
    decoded = decode_value(ConsumerGroupTargetAssignmentMetadataValue, with_time)
    assert decoded == ConsumerGroupTargetAssignmentMetadataValue(7, T)


def test_a_value_of_an_unknown_version_is_unsupported_whatever_its_kind() -> None:
    for value in VALUES.values():
        with pytest.raises(UnsupportedValueError, match="version 9"):
            decode_value(value, b"\x00\x09" + bytes(40))
        with pytest.raises(MalformedRecordError):
            decode_value(value, b"\x00")
