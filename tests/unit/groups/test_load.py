"""Loading a partition of ``__consumer_offsets``."""

import pytest

from kohort.groups.classic.transitions import Phase
from kohort.groups.load import LoadFailedError
from kohort.groups.settings import GroupSettings
from kohort.groups.shard import Shard
from kohort.model.ids import GroupId, Instant, Now, Partition, ProducerId, TopicName, WallTime
from kohort.records.batch import BatchFields, NewRecord, build_batch, read_header
from kohort.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.records.offsets_topic import encode_key, encode_value
from kohort.records.record import Record
from kohort.sim.clock import EPOCH
from kohort.sim.driver import Scenario

G, T0 = GroupId("g"), (TopicName("t"), Partition(0))
START = Now(Instant(0), WallTime(0))
NO_PRODUCER = ProducerId(-1)


def offset_record(offset: int | None, log_offset: int = 0, partition: int = 0) -> Record:
    value = None if offset is None else encode_value(OffsetCommitValue(offset))
    return Record(log_offset, 0, encode_key(OffsetCommitKey("g", "t", partition)), value)


def group_record(value: bytes | None, group: str = "g") -> Record:
    return Record(0, 0, encode_key(GroupMetadataKey(group)), value)


def group_value(*members: str, generation: int = 3, leader: str | None = None) -> GroupMetadataValue:
    stored = [MemberMetadata(name, None, "c", "/h", 5_000, 10_000, b"sub", b"ass") for name in members]
    protocol = "range" if members else None
    return GroupMetadataValue("consumer", generation, protocol, leader, 77, stored)


def loaded(*records: Record, settings: GroupSettings | None = None) -> Shard:
    shard = Shard(settings or GroupSettings(), Instant(0))
    shard.replay(records)
    shard.finish_load(START)
    return shard


def stored(*records: Record) -> bytes:
    """The records as a batch of the log, from the offset of the first on."""
    fresh = [NewRecord(0, record.key, record.value) for record in records]
    return build_batch(fresh, BatchFields(base_offset=records[0].offset))


def committed(shard: Shard, partition: int = 0) -> int | None:
    row = shard.state.offsets.get(G, TopicName("t"), Partition(partition))
    return None if row is None else row.offset


def test_a_tombstone_of_an_unknown_group_is_nothing() -> None:
    assert loaded(group_record(None), offset_record(None)).group(G) is None


def test_offsets_of_a_deleted_group_are_forgotten_with_it() -> None:
    shard = loaded(offset_record(1), group_record(None))
    assert shard.group(G) is None
    assert committed(shard) is None


def test_what_is_not_understood_is_counted_and_left_alone() -> None:
    shard = Shard(GroupSettings(), Instant(0))
    shard.replay(
        [
            Record(0, 0, b"\x00\x63rest", b""),
            Record(1, 0, None, b""),
            Record(2, 0, b"\x00", b""),
            Record(3, 0, b"\x00\x63", None),
            offset_record(4),
        ]
    )
    shard.replay([Record(5, 0, b"\x00\x00\x00\x09", b""), Record(6, 0, b"\x00", b"")], NO_PRODUCER, True)
    shard.replay([Record(7, 0, None, b"")], NO_PRODUCER, is_control=True)
    assert shard.skipped == {
        "record of type 99": 2,
        "record without a key": 2,
        "control record that ends no transaction": 3,
    }
    shard.finish_load(START)
    assert committed(shard) == 4


@pytest.mark.parametrize(
    "record",
    [
        Record(7, 0, encode_key(OffsetCommitKey("g", "t", 0)), b"\x00\x09" + bytes(22)),  # a newer version
        Record(7, 0, encode_key(OffsetCommitKey("g", "t", 0)), encode_value(OffsetCommitValue(1))[:-1]),
        Record(7, 0, b"\x00\x01\x00\x05g", b""),  # a key cut off
    ],
)
def test_what_must_be_understood_and_is_not_fails_the_load(record: Record) -> None:
    shard = Shard(GroupSettings(), Instant(0))
    with pytest.raises(LoadFailedError, match="log offset 7"):
        shard.replay([offset_record(1), record])


def test_a_batch_of_the_log_is_taken_as_it_is_stored() -> None:
    batch = stored(
        *(offset_record(partition, partition=partition) for partition in range(200)),
        group_record(encode_value(group_value("a"))),
        offset_record(None, partition=7),
        offset_record(5, partition=8),
    )
    shard = Shard(GroupSettings(), Instant(0))
    shard.replay_batch(batch, read_header(batch))
    shard.finish_load(START)
    found = [committed(shard, partition) for partition in range(200)]
    assert found == [*range(7), None, 5, *range(9, 200)]
    assert shard.group(G) is not None


def test_an_offset_that_comes_after_the_end_of_its_topic_or_group_is_kept() -> None:
    batch = stored(offset_record(1), offset_record(None), offset_record(2), group_record(None))
    shard = Shard(GroupSettings(), Instant(0))
    shard.replay_batch(batch, read_header(batch))
    again = stored(offset_record(3, partition=1))
    shard.replay_batch(again, read_header(again))
    shard.finish_load(START)
    assert (committed(shard), committed(shard, 1)) == (2, 3)
    assert shard.group(G) is not None


def test_a_batch_that_cannot_be_understood_fails_the_load_and_says_where() -> None:
    shard = Shard(GroupSettings(), Instant(0))
    newer = Record(0, 0, encode_key(OffsetCommitKey("g", "t", 0)), b"\x00\x09" + bytes(22))
    batch = stored(offset_record(1, log_offset=40), newer)
    with pytest.raises(LoadFailedError, match="log offset 41"):
        shard.replay_batch(batch, read_header(batch))


@pytest.mark.parametrize("value", [b"\x00\x09", encode_value(group_value("a"))[:-1]])
def test_a_group_that_cannot_be_read_fails_the_load(value: bytes) -> None:
    shard = Shard(GroupSettings(), Instant(0))
    shard.replay([group_record(value)])
    with pytest.raises(LoadFailedError, match="cannot load group 'g'"):
        shard.finish_load(START)


def test_a_group_with_nothing_but_an_open_transaction_is_there() -> None:
    shard = Shard(GroupSettings(), Instant(0))
    shard.replay([offset_record(10)], ProducerId(9))
    shard.finish_load(START)
    assert shard.group(G) is not None
    assert committed(shard) is None


def test_the_first_sweep_comes_one_interval_after_the_load() -> None:
    scenario = Scenario(GroupSettings(offsets_retention_check_interval_ms=1_000))
    scenario.join_once("a")
    scenario.sleep(999)
    assert scenario.group.pending
    scenario.sleep(1)
    assert not scenario.exists


def test_values_that_were_loaded_are_read_like_those_that_were_committed() -> None:
    scenario = Scenario()
    scenario.commit(None, {("t", 0): 1}, metadata="m", leader_epoch=2)
    scenario.commit(None, {("t", 1): 1})
    before = scenario.replies[scenario.fetch()]
    scenario.restart()
    assert scenario.replies[scenario.fetch()] == before
    row = scenario.shard.state.offsets.get(G, *T0)
    assert row is not None
    assert row.commit_timestamp == EPOCH


def test_groups_may_come_to_life_some_at_a_time_and_none_rebalances_before_all_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shard = Shard(GroupSettings(max_size=1), Instant(0))
    shard.replay([group_record(encode_value(group_value("m", "n")), group) for group in "abc"])
    monkeypatch.setattr("kohort.groups.shard.WOKEN_AT_A_TIME", 2)
    steps = []
    while (outcome := shard.load_more(START)) is not None:
        steps.append([event.group_id for event in outcome.events])
    assert steps == [[], [], [], ["a", "b"], ["c"]]  # each is decoded, then they come to life
    assert {group.state_name for group in shard.state.groups.values()} == {Phase.STABLE.value}
    rebalancing = [event.group_id for event in shard.finish_load(START).events]
    assert rebalancing == ["a", "b", "c"]
    assert {group.state_name for group in shard.state.groups.values()} == {Phase.PREPARING_REBALANCE.value}
