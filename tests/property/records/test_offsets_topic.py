"""Whatever a coordinator stores in ``__consumer_offsets`` it reads again; other bytes give typed errors."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.model.ids import NO_TOPIC_ID, TopicId
from kohort.records.errors import MalformedRecordError, UnsupportedValueError
from kohort.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.records.offsets_topic import (
    VALUES,
    decode_commit,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    read_names,
)

steady = settings(derandomize=True, deadline=None, max_examples=70)

names = st.text(max_size=20)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
blobs = st.binary(max_size=20)
keys = st.builds(OffsetCommitKey, names, names, int32) | st.builds(GroupMetadataKey, names)
topic_ids = st.just(NO_TOPIC_ID) | st.binary(min_size=16, max_size=16).map(TopicId)
offset_values = st.builds(OffsetCommitValue, int64, int32, names, int64, st.just(-1), topic_ids)
members = st.builds(MemberMetadata, names, st.none() | names, names, names, int32, int32, blobs, blobs)
group_values = st.builds(
    GroupMetadataValue,
    names,
    int32,
    st.none() | names,
    st.none() | names,
    int64,
    st.lists(members, max_size=4),
)


@pytest.mark.slow
@steady
@given(st.lists(keys, max_size=8))
def test_keys_come_back(given_keys: list[OffsetCommitKey | GroupMetadataKey]) -> None:
    for key in given_keys:
        encoded = encode_key(key)
        assert decode_key(encoded) == key
        assert read_names(encoded[:-4]) == (
            (key.group, key.topic) if isinstance(key, OffsetCommitKey) else None
        )


@pytest.mark.slow
@steady
@given(offset_values, st.none() | int64)
def test_offset_values_come_back(value: OffsetCommitValue, expires: int | None) -> None:
    encoded = encode_value(value)
    assert decode_commit(encoded) == value
    if expires is not None and expires != -1:
        value.expire_timestamp = expires
        stored = decode_commit(encode_value(value))
        assert stored == OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp, expires)


@pytest.mark.slow
@steady
@given(group_values)
def test_group_values_come_back(value: GroupMetadataValue) -> None:
    assert decode_value(GroupMetadataValue, encode_value(value)) == value


@pytest.mark.slow
@steady
@given(keys, offset_values, group_values, st.data())
def test_damage_leads_to_a_typed_error_or_to_nothing(
    key: OffsetCommitKey | GroupMetadataKey,
    offset: OffsetCommitValue,
    group: GroupMetadataValue,
    data: st.DataObject,
) -> None:
    for encoded in (encode_key(key), encode_value(offset), encode_value(group)):
        damaged = bytearray(encoded)
        for _ in range(data.draw(st.integers(0, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
        read_names(cut)
        with suppress(MalformedRecordError):
            decode_key(cut)
        for value in VALUES.values():
            with suppress(MalformedRecordError, UnsupportedValueError):
                decode_value(value, cut)
