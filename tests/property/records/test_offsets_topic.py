"""Whatever a coordinator stores in ``__consumer_offsets`` it reads again; other bytes give typed errors."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.model.ids import NO_TOPIC_ID, TopicId
from kohort.records.offsets_topic import (
    GroupKey,
    GroupMemberValue,
    GroupValue,
    MalformedRecordError,
    OffsetKey,
    OffsetValue,
    UnsupportedValueError,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_key,
    encode_offset_value,
    read_names,
)

steady = settings(derandomize=True, deadline=None, max_examples=70)

names = st.text(max_size=20)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
blobs = st.binary(max_size=20)
keys = st.builds(OffsetKey, names, names, int32) | st.builds(GroupKey, names)
topic_ids = st.just(NO_TOPIC_ID) | st.binary(min_size=16, max_size=16).map(TopicId)
offset_values = st.builds(OffsetValue, int64, int32, names, int64, st.just(-1), topic_ids)
members = st.builds(GroupMemberValue, names, st.none() | names, names, names, int32, int32, blobs, blobs)
group_values = st.builds(
    GroupValue, names, int32, st.none() | names, st.none() | names, int64, st.lists(members, max_size=4)
)


@pytest.mark.slow
@steady
@given(st.lists(keys, max_size=8))
def test_keys_come_back(given_keys: list[OffsetKey | GroupKey]) -> None:
    for key in given_keys:
        encoded = encode_key(key)
        assert decode_key(encoded) == key
        assert read_names(encoded[:-4]) == (key[:2] if isinstance(key, OffsetKey) else None)


@pytest.mark.slow
@steady
@given(offset_values, st.none() | int64)
def test_offset_values_come_back(value: OffsetValue, expires: int | None) -> None:
    encoded = encode_offset_value(value)
    assert decode_offset_value(encoded) == value
    if expires is not None and expires != -1:
        stored = value._replace(expire_timestamp=expires)
        assert decode_offset_value(encode_offset_value(stored)) == stored._replace(
            leader_epoch=-1, topic_id=NO_TOPIC_ID
        )


@pytest.mark.slow
@steady
@given(group_values)
def test_group_values_come_back(value: GroupValue) -> None:
    assert decode_group_value(encode_group_value(value)) == value


@pytest.mark.slow
@steady
@given(keys, offset_values, group_values, st.data())
def test_damage_leads_to_a_typed_error_or_to_nothing(
    key: OffsetKey | GroupKey, offset: OffsetValue, group: GroupValue, data: st.DataObject
) -> None:
    for encoded in (encode_key(key), encode_offset_value(offset), encode_group_value(group)):
        damaged = bytearray(encoded)
        for _ in range(data.draw(st.integers(0, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
        for read in (decode_key, read_names, decode_offset_value, decode_group_value):
            with suppress(MalformedRecordError, UnsupportedValueError):
                read(cut)
