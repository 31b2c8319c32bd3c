"""How each event changes the table of offsets, and how a log is read back into it."""

from collections.abc import Callable
from typing import Any

from kohort.groups.events import Event, OffsetsCommitted, OffsetsDeleted
from kohort.groups.offsets.state import OffsetAddress, OffsetTable, StoredOffset, TransactionalOffset
from kohort.groups.state import State
from kohort.model.ids import ProducerId


def put_offset(table: OffsetTable, address: OffsetAddress, stored: StoredOffset) -> None:
    """The log has a newer offset; what open transactions wrote for the partition has lost to it."""
    group_id, topic, partition = address
    by_topic = table.groups.get(group_id)
    if by_topic is None:
        by_topic = table.groups[group_id] = {}
    by_partition = by_topic.get(topic)
    if by_partition is None:
        by_partition = by_topic[topic] = {}
    by_partition[partition] = stored
    if table.open_offsets:
        _supersede(table, address, None)


def drop_offset(table: OffsetTable, address: OffsetAddress) -> None:
    """The log has a tombstone: nothing is stored, nor open, for the partition any more."""
    group_id, topic, partition = address
    by_topic = table.groups.get(group_id)
    if by_topic is not None and topic in by_topic:
        by_partition = by_topic[topic]
        by_partition.pop(partition, None)
        if not by_partition:
            del by_topic[topic]
            if not by_topic:
                del table.groups[group_id]
    for producer in table.open_offsets.pop(address, ()):
        del table.open_transactions[producer][address]


def put_transactional_offset(
    table: OffsetTable, producer: ProducerId, address: OffsetAddress, written: TransactionalOffset
) -> None:
    """A transaction wrote an offset that counts from its commit marker on."""
    table.open_transactions.setdefault(producer, {})[address] = written
    table.open_offsets.setdefault(address, {})[producer] = None


def end_transaction(table: OffsetTable, producer: ProducerId, committed: bool) -> None:
    """The log has the transaction's marker: its offsets count, or never were."""
    for address, written in table.open_transactions.pop(producer, {}).items():
        others = table.open_offsets[address]
        del others[producer]
        if not others:
            del table.open_offsets[address]
        if committed and written.stored is not None:
            log_offset = written.log_offset
            _install(table, address, written.stored)
            _supersede(table, address, log_offset)


def _install(table: OffsetTable, address: OffsetAddress, stored: StoredOffset) -> None:
    group_id, topic, partition = address
    table.groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = stored


def _supersede(table: OffsetTable, address: OffsetAddress, before: int | None) -> None:
    """What open transactions wrote for the partition (``before`` a log offset) will not count."""
    for producer in table.open_offsets.get(address, ()):
        written = table.open_transactions[producer]
        if before is None or written[address].log_offset < before:
            written[address] = written[address]._replace(stored=None)


def _offsets_committed(state: State, event: OffsetsCommitted) -> None:
    group_id = event.group_id
    for row in event.rows:
        put_offset(state.offsets, (group_id, row[0], row[1]), row)


def _offsets_deleted(state: State, event: OffsetsDeleted) -> None:
    for topic, partition in event.partitions:
        drop_offset(state.offsets, (event.group_id, topic, partition))


APPLY: dict[type[Event], Callable[[State, Any], None]] = {
    OffsetsCommitted: _offsets_committed,
    OffsetsDeleted: _offsets_deleted,
}
