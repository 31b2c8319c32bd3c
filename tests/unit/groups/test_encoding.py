"""Durable events as records, and back."""

from typing import Any

import pytest

from kohort.groups.causes import PartitionUnloaded
from kohort.groups.encoding import decode_image, encode, is_storable
from kohort.groups.events import (
    GroupDied,
    GroupImage,
    GroupStored,
    GroupTombstoned,
    MemberImage,
    OffsetRow,
    OffsetsCommitted,
    OffsetsDeleted,
)
from kohort.model.ids import Generation, GroupId, InstanceId, MemberId, Partition, TopicName, WallTime

G, T, P3 = GroupId("g"), TopicName("t"), Partition(3)
CAUSE = PartitionUnloaded()
STAMP = WallTime(1_700_000_000_000)


def image(*members: MemberImage) -> GroupImage:
    return GroupImage("consumer", Generation(1), "range", MemberId("m-1"), STAMP, members)


def member(rebalance_timeout_ms: int = 300_000) -> MemberImage:
    return MemberImage(
        MemberId("m-1"), InstanceId("i"), "c", "/127.0.0.1", rebalance_timeout_ms, 45_000, b"sub", b"ass"
    )


def test_offsets_become_one_record_for_each_row() -> None:
    row = OffsetRow(T, P3, 42, -1, "", STAMP)
    records = encode([OffsetsCommitted(G, (row, row._replace(partition=Partition(4))), CAUSE)])
    assert records[0] == (
        bytes.fromhex("0001 0001 67 0001 74 00000003"),
        bytes.fromhex("0003 000000000000002a ffffffff 0000 0000018bcfe56800"),
    )
    assert records[1][0].hex() == "0001000167000174" + "00000004"


def test_what_is_deleted_becomes_tombstones_in_order() -> None:
    records = encode([OffsetsDeleted(G, ((T, P3),), CAUSE), GroupTombstoned(G, CAUSE)])
    assert records == (
        (bytes.fromhex("0001 0001 67 0001 74 00000003"), None),
        (bytes.fromhex("0002 0001 67"), None),
    )


def test_an_empty_new_group_has_kafkas_bytes() -> None:
    empty = GroupImage("", Generation(0), None, None, STAMP, ())
    ((key, value),) = encode([GroupStored(GroupId("g1"), empty, CAUSE)])
    assert key == bytes.fromhex("0002 0002 6731")
    assert value == bytes.fromhex("0003 0000 00000000 ffff ffff 0000018bcfe56800 00000000")


def test_a_group_comes_back_as_it_was() -> None:
    ((_, value),) = encode([GroupStored(G, image(member()), CAUSE)])
    assert value is not None
    assert decode_image(value) == image(member())


def test_no_leader_and_no_instance_come_back_as_none() -> None:
    plain = image(member()._replace(instance_id=None))._replace(leader=None)
    ((_, value),) = encode([GroupStored(G, plain, CAUSE)])
    assert value is not None
    assert decode_image(value) == plain


def test_a_missing_rebalance_timeout_is_the_session_timeout() -> None:
    ((_, value),) = encode([GroupStored(G, image(member(-1)), CAUSE)])
    assert value is not None
    assert decode_image(value).members[0].rebalance_timeout_ms == 45_000


def test_names_are_storable_up_to_32767_bytes() -> None:
    assert is_storable("x" * 32_767)
    assert not is_storable("x" * 32_768)
    assert is_storable("日" * 10_922)
    assert not is_storable("日" * 10_923)


def test_an_event_that_is_no_record_is_never_written_as_a_tombstone() -> None:
    soft: Any = GroupDied(G, STAMP, CAUSE)
    with pytest.raises(AssertionError, match="GroupDied"):
        encode([soft])
