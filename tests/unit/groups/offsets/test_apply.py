"""The table of offsets, and transactions over it (offsets-and-log 7.5)."""

import pytest

from kohort.groups.offsets.apply import drop_offset, end_transaction, put_offset, put_transactional_offset
from kohort.groups.offsets.state import OffsetAddress, OffsetTable, TransactionalOffset
from kohort.model.ids import GroupId, Partition, ProducerId, TopicName
from kohort.records.group_records import OffsetCommitValue
from kohort.records.offsets_topic import encode_value

ONE, TWO = ProducerId(1), ProducerId(2)
HERE: OffsetAddress = (GroupId("g"), TopicName("t"), Partition(0))
THERE: OffsetAddress = (GroupId("g"), TopicName("t"), Partition(1))


def value(offset: int) -> bytes:
    return encode_value(OffsetCommitValue(offset))


def offset_of(table: OffsetTable, address: OffsetAddress = HERE) -> int | None:
    row = table.get(*address)
    return None if row is None else row.offset


def write(table: OffsetTable, producer: ProducerId, log_offset: int, address: OffsetAddress = HERE) -> None:
    """A transaction commits an offset equal to the log offset of its record."""
    put_transactional_offset(table, producer, address, TransactionalOffset(log_offset, value(log_offset)))


def test_the_newest_offset_counts_and_a_dropped_one_leaves_nothing() -> None:
    table = OffsetTable()
    put_offset(table, HERE, value(1))
    put_offset(table, THERE, value(2))
    put_offset(table, HERE, value(3))
    assert (offset_of(table, HERE), offset_of(table, THERE)) == (3, 2)
    drop_offset(table, HERE)
    drop_offset(table, HERE)
    assert (offset_of(table, HERE), offset_of(table, THERE)) == (None, 2)
    drop_offset(table, THERE)
    drop_offset(table, THERE)
    assert table == OffsetTable()


@pytest.mark.parametrize(("committed", "offset"), [(True, 10), (False, 1)])
def test_a_transactions_offset_counts_from_its_marker_on(committed: bool, offset: int) -> None:
    table = OffsetTable()
    put_offset(table, HERE, value(1))
    write(table, ONE, 10)
    assert offset_of(table) == 1
    assert table.open_partitions(GroupId("g")) == (("t", 0),)
    end_transaction(table, ONE, committed)
    assert offset_of(table) == offset
    assert not table.open_partitions(GroupId("g"))


def test_a_plain_commit_after_a_transactions_record_survives_its_marker() -> None:
    table = OffsetTable()
    write(table, ONE, 10)
    put_offset(table, HERE, value(12))
    end_transaction(table, ONE, committed=True)
    assert offset_of(table) == 12


def test_a_transactions_record_after_a_plain_commit_wins() -> None:
    table = OffsetTable()
    write(table, ONE, 10)
    put_offset(table, HERE, value(12))
    write(table, ONE, 13)
    end_transaction(table, ONE, committed=True)
    assert offset_of(table) == 13


@pytest.mark.parametrize("first", [ONE, TWO])
def test_of_two_transactions_the_later_record_wins_whichever_ends_first(first: ProducerId) -> None:
    table = OffsetTable()
    write(table, ONE, 10)
    write(table, TWO, 12)
    end_transaction(table, first, committed=True)
    assert table.open_offsets
    end_transaction(table, TWO if first == ONE else ONE, committed=True)
    assert offset_of(table) == 12
    assert table.open_offsets == {}


def test_a_tombstone_empties_open_transactions_too() -> None:
    table = OffsetTable()
    write(table, ONE, 10)
    write(table, ONE, 11, THERE)
    drop_offset(table, HERE)
    end_transaction(table, ONE, committed=True)
    assert (offset_of(table, HERE), offset_of(table, THERE)) == (None, 11)


def test_the_marker_of_an_unknown_transaction_is_nothing() -> None:
    table = OffsetTable()
    end_transaction(table, ONE, committed=True)
    assert table == OffsetTable()
