"""Whatever a log holds, its batches lead to the same shard as its records read one by one."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.ids import Instant, Now, ProducerId, WallTime
from kohort.records.batch import BatchFields, NewRecord, build_batch, read_header, read_records
from kohort.records.compression import Codec
from kohort.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.records.offsets_topic import encode_key, encode_value

groups = st.sampled_from(["g", "h", "a-group-with-a-name-of-some-length-and-more-than-sixty-four-bytes"])
offset_keys = st.builds(OffsetCommitKey, groups, st.sampled_from("tu"), st.integers(0, 2)).map(encode_key)
legacy_keys = offset_keys.map(lambda key: b"\x00\x00" + key[2:])
padded_keys = offset_keys.map(lambda key: key + b"\x00\x00\x00\x01")
group_keys = groups.map(lambda group: encode_key(GroupMetadataKey(group)))
values = [
    OffsetCommitValue(1),
    OffsetCommitValue(2, 3, "", 4),
    OffsetCommitValue(5, 6, "", 7),
    OffsetCommitValue(8, 9, "metadata", 10),
    OffsetCommitValue(11, expire_timestamp=12),
]
offset_values = st.sampled_from(values).map(encode_value)
group_values = st.integers(0, 9).map(
    lambda generation: encode_value(GroupMetadataValue("consumer", generation, None, None, 5, []))
)
records = st.lists(
    st.tuples(offset_keys, offset_values)
    | st.tuples(offset_keys | legacy_keys | padded_keys, offset_values | st.none())
    | st.tuples(group_keys, group_values | st.none())
    | st.tuples(st.sampled_from([None, b"\x00", b"\x00\x63newer"]), st.none() | st.binary(max_size=30)),
    min_size=1,
    max_size=9,
).map(lambda pairs: build_batch([NewRecord(time, *pair) for time, pair in enumerate(pairs)]))
compressed = st.lists(st.tuples(offset_keys, offset_values), min_size=1).map(
    lambda pairs: build_batch([NewRecord(0, *pair) for pair in pairs], BatchFields(codec=Codec.GZIP))
)
producers = st.integers(1, 2)
transactional = st.builds(
    lambda producer, pair: build_batch(
        [NewRecord(0, *pair)], BatchFields(producer_id=producer, producer_epoch=0, transactional=True)
    ),
    producers,
    st.tuples(offset_keys, offset_values),
)
markers = st.builds(
    lambda producer, committed: build_batch(
        [NewRecord(0, bytes((0, 0, 0, committed)), bytes(6))],
        BatchFields(producer_id=producer, producer_epoch=0, transactional=True, control=True),
    ),
    producers,
    st.booleans(),
)
logs = st.lists(records | records | compressed | transactional | markers, max_size=8)


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=150)
@given(logs)
def test_batches_lead_to_what_their_records_lead_to(log: Sequence[bytes]) -> None:
    by_batch, by_record = (Shard(GroupSettings(), Instant(0)) for _ in range(2))
    for batch in log:
        header = read_header(batch)
        by_batch.replay_batch(memoryview(batch), header)
        by_record.replay(read_records(batch), ProducerId(header.producer_id), header.is_control)
    assert by_batch.skipped == by_record.skipped
    now = Now(Instant(0), WallTime(0))
    events = [shard.finish_load(now).events for shard in (by_batch, by_record)]
    assert events[0] == events[1]
    assert by_batch.state.offsets == by_record.state.offsets
    assert by_batch.fingerprint(now.instant) == by_record.fingerprint(now.instant)
