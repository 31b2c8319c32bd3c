"""Records of many batches found at once, where numpy is installed: a third of the work of one after another.

What is found is only made into records as they are taken, a portion at a time. A piece of a log in which
something is wrong is left to the decoder of single batches, which says what that is.
"""

import importlib.util
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kohort.client.fetching.aborted import leaves_out_aborted
from kohort.client.fetching.records import Reading
from kohort.client.fetching.run import Place
from kohort.model.topics import TopicPartition
from kohort.records.batch import CorruptBatchError
from kohort.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from kohort.client.fetching.rows import Rows
    from kohort.records.columns.spans import Columns
    from kohort.records.columns.table import BatchTable, Sifting

# Below this, the fixed cost of numpy's operations is more than they save.
_WORTH_IT = 32 * 1024


@cache
def _numpy_is_there() -> bool:
    return importlib.util.find_spec("numpy") is not None


class Bulk(NamedTuple):
    """The records of a piece of a log. ``runs`` raises CorruptBatchError where something is wrong with it."""

    runs: "Iterator[Rows]"
    base: int  # where the piece begins in the bytes its runs count from
    end: int  # the byte of the piece behind the last whole batch
    behind: Place  # the last batch


def open_bulk(
    partition: TopicPartition, start: int, answered: PartitionData, reading: Reading
) -> "Bulk | None":
    """The records from ``start`` on, if reading them at once pays."""
    blob = answered.records
    if not isinstance(blob, bytes | memoryview) or len(blob) < _WORTH_IT or not _numpy_is_there():
        return None
    from kohort.records.columns.table import Sifting, find_batches  # numpy

    table = find_batches(blob)
    following = table.next_offset
    if following is None:
        return None
    last = table.header(-1)
    end = int(table.positions[-1]) + last.size
    whole, base = _whole(blob)
    table = table._replace(blob=whole, positions=table.positions + base)
    leaves_out = leaves_out_aborted(answered, whole) if reading.read_committed else None
    return Bulk(
        _runs(partition, table, Sifting(start, reading.check_crcs, leaves_out)),
        base,
        end,
        Place(following, last.partition_leader_epoch),
    )


def _whole(blob: bytes | memoryview) -> tuple[bytes, int]:
    """The bytes a view is of, and where in them it begins: slices of bytes are bytes, and need no copy."""
    import numpy as np

    if isinstance(blob, bytes):
        return blob, 0
    if not isinstance(blob.obj, bytes):
        return bytes(blob), 0
    begin, whole = (np.frombuffer(each, np.uint8).ctypes.data for each in (blob, blob.obj))
    return blob.obj, begin - whole


def _runs(partition: TopicPartition, table: "BatchTable", sifting: "Sifting") -> "Iterator[Rows]":
    """Runs of a few megabytes, none of them empty, up to the first that cannot be read in full."""
    from kohort.client.fetching.rows import Rows
    from kohort.records.columns import lanes, read
    from kohort.records.columns.sections import sections
    from kohort.records.columns.table import sift

    _check_batches(table)  # all of them: one that is passed over moves the position, too
    wanted = sift(table, sifting)
    first = 0
    for section in sections(wanted, sifting.limit):
        here = slice(first, first := first + len(section.counts))
        part = wanted._replace(positions=wanted.positions[here], headers=wanted.headers[here])
        columns = read.columns_of(section, lanes.decode)
        _check_order(part, columns)
        rows = Rows(partition, part, columns)
        rows.begin_at(sifting.start)
        if rows.left:
            yield rows


def _check_batches(batches: "BatchTable") -> None:
    """Raise CorruptBatchError unless each is of some length and begins where the last one ended, or later."""
    bases, nexts = batches.numbers("base_offset"), batches.next_offsets
    if (nexts <= bases).any() or (bases[1:] < nexts[:-1]).any():
        raise CorruptBatchError("batches do not ascend")


def _check_order(batches: "BatchTable", columns: "Columns") -> None:
    """Raise CorruptBatchError unless offsets of records ascend, and lie where the headers say."""
    offsets, counts = columns.offsets, batches.numbers("records_count")
    lasts = counts.cumsum()
    filled = counts > 0
    firsts = lasts - counts
    in_order = (
        (offsets[1:] > offsets[:-1]).all()
        and (offsets[firsts[filled]] >= batches.numbers("base_offset")[filled]).all()
        and (offsets[lasts[filled] - 1] < batches.next_offsets[filled]).all()
    )
    if not in_order:
        raise CorruptBatchError("offsets do not ascend")
