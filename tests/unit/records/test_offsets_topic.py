"""The records of ``__consumer_offsets``, against bytes that Kafka writes."""

import pytest

from kohort.model.ids import TopicId
from kohort.records.offsets_topic import (
    GroupKey,
    GroupMemberValue,
    GroupValue,
    MalformedRecordError,
    OffsetKey,
    OffsetValue,
    OtherKey,
    UnsupportedValueError,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_key,
    encode_offset_value,
    read_names,
)

T = 1_700_000_000_000
TOPIC_ID = TopicId(bytes(range(16)))
T_HEX = "0000018bcfe56800"

OFFSET_VALUES = [
    pytest.param(
        "0001 000000000000002a 0000 0000018bcfe56800 0000018bcfee8fc0",
        OffsetValue(42, commit_timestamp=T, expire_timestamp=T + 600_000),
        id="v1",
    ),
    pytest.param(
        "0003 000000000000002a ffffffff 0000 0000018bcfe56800",
        OffsetValue(42, commit_timestamp=T),
        id="v3",
    ),
    pytest.param(
        "0004 000000000000002a 00000005 026d 0000018bcfe56800 01 00 10 000102030405060708090a0b0c0d0e0f",
        OffsetValue(42, 5, "m", T, topic_id=TOPIC_ID),
        id="v4 with a topic id",
    ),
    pytest.param(
        "0003 000000000000002a 00000005 0002 c3a9 0000018bcfe56800",
        OffsetValue(42, 5, "é", T),
        id="v3 with metadata",
    ),
]
OLD_OFFSET_VALUES = [
    pytest.param(
        "0004 000000000000002a 00000005 026d 0000018bcfe56800 00",
        OffsetValue(42, 5, "m", T),
        id="v4 without a topic id",
    ),
    pytest.param(f"0000 000000000000002a 0001 6d {T_HEX}", OffsetValue(42, -1, "m", T), id="v0"),
    pytest.param(f"0002 000000000000002a 0001 6d {T_HEX}", OffsetValue(42, -1, "m", T), id="v2"),
    pytest.param(
        f"0003 000000000000002a ffffffff 0000 {T_HEX} 77", OffsetValue(42, -1, "", T), id="trailing"
    ),
    pytest.param(
        f"0004 000000000000002a 00000005 01 {T_HEX} 01 09 02 abcd",
        OffsetValue(42, 5, "", T),
        id="v4 with an unknown tag",
    ),
]

MEMBER = GroupMemberValue(
    member_id="m-1",
    instance_id=None,
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=bytes.fromhex("0000 00000001 0001 74 ffffffff"),
    assignment=bytes.fromhex("0000 00000001 0001 74 00000001 00000000 ffffffff"),
)
GROUP = GroupValue("consumer", 1, "range", "m-1", T, [MEMBER])
GROUP_HEX = """
    0003 0008 636f6e73756d6572 00000001 0005 72616e6765 0003 6d2d31 0000018bcfe56800 00000001
    0003 6d2d31 ffff 0001 63 000a 2f3132372e302e302e31 000493e0 0000afc8
    0000000d 0000 00000001 0001 74 ffffffff
    00000015 0000 00000001 0001 74 00000001 00000000 ffffffff
"""
EMPTY_GROUP = GroupValue("", 0, None, None, T)
EMPTY_GROUP_HEX = "0003 0000 00000000 ffff ffff 0000018bcfe56800 00000000"


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        (OffsetKey("g", "t", 3), "0001 0001 67 0001 74 00000003"),
        (GroupKey("g"), "0002 0001 67"),
        (GroupKey("g1"), "0002 0002 6731"),
    ],
)
def test_keys_are_the_bytes_kafka_writes(key: OffsetKey | GroupKey, encoded: str) -> None:
    assert encode_key(key) == bytes.fromhex(encoded)
    assert decode_key(bytes.fromhex(encoded)) == key


def test_a_legacy_offset_key_reads_like_the_current_one() -> None:
    assert decode_key(bytes.fromhex("0000 0001 67 0001 74 00000003")) == OffsetKey("g", "t", 3)


@pytest.mark.parametrize("kind", [3, 8, 16, 99, -1])
def test_a_key_of_another_type_is_told_by_its_number(kind: int) -> None:
    assert decode_key(kind.to_bytes(2, "big", signed=True) + b"\x00") == OtherKey(kind)


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
    assert len(encode_key(GroupKey("g" * 32_767))) == 32_771
    with pytest.raises(MalformedRecordError, match="32768 bytes"):
        encode_key(GroupKey("g" * 32_768))


@pytest.mark.parametrize("names", [("g", "t"), ("gt", ""), ("", ""), ("grüppe", "a.b")])
@pytest.mark.parametrize("kind", [b"\x00\x00", b"\x00\x01"])
def test_group_and_topic_are_read_from_what_offset_keys_begin_with(
    names: tuple[str, str], kind: bytes
) -> None:
    key = encode_key(OffsetKey(*names, 7))
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
def test_offset_values_are_the_bytes_kafka_writes(encoded: str, value: OffsetValue) -> None:
    assert encode_offset_value(value) == bytes.fromhex(encoded)


@pytest.mark.parametrize(("encoded", "value"), OFFSET_VALUES + OLD_OFFSET_VALUES)
def test_every_version_of_an_offset_value_is_read(encoded: str, value: OffsetValue) -> None:
    assert decode_offset_value(bytes.fromhex(encoded)) == value


def test_an_expiry_drops_the_leader_epoch_and_the_topic_id() -> None:
    value = OffsetValue(42, 5, "", T, T + 1, TOPIC_ID)
    assert decode_offset_value(encode_offset_value(value)) == OffsetValue(42, -1, "", T, T + 1)


@pytest.mark.parametrize("encoded", [param.values[0] for param in OFFSET_VALUES + OLD_OFFSET_VALUES[:-2]])
def test_an_offset_value_cut_off_anywhere_is_malformed(encoded: object) -> None:
    whole = bytes.fromhex(str(encoded))
    for length in range(len(whole)):
        with pytest.raises(MalformedRecordError):
            decode_offset_value(whole[:length])


@pytest.mark.parametrize("version", [5, 9, -1])
def test_an_offset_value_of_an_unknown_version_is_not_guessed(version: int) -> None:
    value = version.to_bytes(2, "big", signed=True) + bytes(30)
    with pytest.raises(UnsupportedValueError, match=f"version {version}"):
        decode_offset_value(value)


def test_null_metadata_and_a_short_topic_id_are_malformed() -> None:
    with pytest.raises(MalformedRecordError, match="before byte 16 is null"):
        decode_offset_value(bytes.fromhex(f"0003 000000000000002a ffffffff ffff {T_HEX}"))
    with pytest.raises(MalformedRecordError, match="topic id of 2 bytes"):
        decode_offset_value(bytes.fromhex(f"0004 000000000000002a 00000005 01 {T_HEX} 01 00 02 abcd"))


@pytest.mark.parametrize(("encoded", "value"), [(GROUP_HEX, GROUP), (EMPTY_GROUP_HEX, EMPTY_GROUP)])
def test_group_values_are_the_bytes_kafka_writes(encoded: str, value: GroupValue) -> None:
    assert encode_group_value(value) == bytes.fromhex(encoded)
    decoded = decode_group_value(bytes.fromhex(encoded))
    assert decoded._replace(members=tuple(decoded.members)) == value._replace(members=tuple(value.members))


@pytest.mark.parametrize(
    ("version", "timestamp", "timeouts"),
    [(0, "", "0000afc8"), (1, "", "000493e0 0000afc8"), (2, T_HEX, "000493e0 0000afc8")],
)
def test_older_group_values_lack_fields(version: int, timestamp: str, timeouts: str) -> None:
    group = f"{version:04x} 0001 70 00000002 ffff 0001 6c {timestamp} 00000001"
    encoded = f"{group} 0001 6d 0001 63 0001 68 {timeouts} 00000001 73 00000001 61"
    member = GroupMemberValue("m", None, "c", "h", 300_000 if version else -1, 45_000, b"s", b"a")
    expected = GroupValue("p", 2, None, "l", T if version == 2 else -1, [member])
    assert decode_group_value(bytes.fromhex(encoded)) == expected


def test_the_flexible_group_value_is_read_and_its_tags_are_skipped() -> None:
    group = f"0004 02 70 00000002 00 02 6c {T_HEX} 02"
    encoded = f"{group} 02 6d 02 69 02 63 02 68 000493e0 0000afc8 02 73 01 01 05 01 ff 00"
    member = GroupMemberValue("m", "i", "c", "h", 300_000, 45_000, b"s", b"")
    assert decode_group_value(bytes.fromhex(encoded)) == GroupValue("p", 2, None, "l", T, [member])


def test_a_group_value_cut_off_anywhere_is_malformed() -> None:
    whole = bytes.fromhex(GROUP_HEX)
    for length in range(len(whole)):
        with pytest.raises(MalformedRecordError):
            decode_group_value(whole[:length])


@pytest.mark.parametrize(
    "encoded",
    [
        "0003 ffff 00000000 ffff ffff 0000018bcfe56800 00000000",
        "0003 0000 00000000 ffff ffff 0000018bcfe56800 7fffffff",
        "0003 0000 00000000 ffff ffff 0000018bcfe56800 ffffffff",
        "0003 0000 00000000 fffe ffff 0000018bcfe56800 00000000",
        "0003 0000 00000000 ffff ffff 0000018bcfe56800 00000001"
        " 0000 ffff 0000 0000 00000001 00000001 ffffffff 00000000",
    ],
)
def test_a_group_value_that_contradicts_itself_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedRecordError):
        decode_group_value(bytes.fromhex(encoded))


def test_a_group_value_of_an_unknown_version_is_not_guessed() -> None:
    with pytest.raises(UnsupportedValueError, match="version 5"):
        decode_group_value(b"\x00\x05" + bytes(30))
