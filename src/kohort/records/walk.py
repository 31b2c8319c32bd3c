"""The structure of a payload, checked without making records of it: for batches that producers send."""

from typing import NamedTuple

from kohort.primitives.varint import VarintError, read_uvarint, read_varint, read_varlong
from kohort.records.errors import CorruptBatchError
from kohort.records.header import BatchHeader
from kohort.records.record import TIMESTAMP_LIMIT, check_room


class Walk(NamedTuple):
    """What a look at all records has found."""

    in_order: bool  # offset deltas are 0, 1, 2, …
    oldest: int  # the first and last of the records' own timestamps
    newest: int
    null_keys: list[int]  # places of the records without a key


def walk_records(payload: bytes, header: BatchHeader) -> Walk:
    """Go through a payload that is not compressed (any more): exactly the records its header counts.

    Raises ``CorruptBatchError`` for what ``decode_records`` would refuse.
    """
    check_room(len(payload), header)
    try:
        walk, position = _walk(payload, header)
    except (IndexError, VarintError) as error:
        raise CorruptBatchError("a record is cut off, or is not a record") from error
    if position != len(payload):
        raise CorruptBatchError(
            f"{len(payload) - position} bytes are left after {header.records_count} records"
        )
    if not -TIMESTAMP_LIMIT <= walk.oldest <= walk.newest < TIMESTAMP_LIMIT:
        raise CorruptBatchError("the timestamp of a record does not fit 64 bits")
    return walk


def _walk(payload: bytes, header: BatchHeader) -> tuple[Walk, int]:  # noqa: C901 - see below
    """What was found, and where the records end.

    The hottest loop of producing: short integers are read in place, as they are in ``decode_records``, and
    what both reject is the same.
    """
    count, base = header.records_count, header.base_timestamp
    in_order = True
    position = 0
    null_keys: list[int] = []
    deltas: list[int] = []
    for index in range(count):
        length = payload[position]
        position += 1
        if length > 0x7F:
            if (second := payload[position]) < 0x80:
                length = length & 0x7F | second << 7
                position += 1
            else:
                length, position = read_uvarint(payload, position - 1)
        end = position + (length >> 1)
        delta = payload[position + 1]
        position += 2
        if delta:
            delta, position = read_varlong(payload, position - 1)
            deltas.append(delta)
        offset = payload[position]
        position += 1
        if offset > 0x7F:
            if (second := payload[position]) < 0x80:
                offset = offset & 0x7F | second << 7
                position += 1
            else:
                offset, position = read_uvarint(payload, position - 1)
        if offset != index << 1:
            in_order = False
        size = payload[position]
        position += 1
        if size > 0x7F:
            size, position = read_uvarint(payload, position - 1)
        if not size & 1:
            position += size >> 1
        elif size == 1:
            null_keys.append(index)
        else:
            raise CorruptBatchError(f"the length before byte {position} is negative")
        size = payload[position]
        position += 1
        if size > 0x7F:
            if (second := payload[position]) < 0x80:
                size = size & 0x7F | second << 7
                position += 1
            else:
                size, position = read_uvarint(payload, position - 1)
        if not size & 1:
            position += size >> 1
        elif size != 1:
            raise CorruptBatchError(f"the length before byte {position} is negative")
        if payload[position]:
            position = _skip_headers(payload, position, end)
        else:
            position += 1
        if position != end or length & 1:
            raise CorruptBatchError(f"the record before byte {position} should end at byte {end}")
    if not deltas:
        return Walk(in_order, base, base, null_keys), position
    if len(deltas) < count:
        deltas.append(0)
    return Walk(in_order, base + min(deltas), base + max(deltas), null_keys), position


def _skip_headers(payload: bytes, position: int, end: int) -> int:
    """Where the headers at ``position`` end."""
    count, position = read_varint(payload, position)
    if not 0 <= count <= (end - position) // 2:
        raise CorruptBatchError(f"{end - position} bytes cannot hold the declared headers")
    for _ in range(count):
        size, position = read_varint(payload, position)
        if size < 0:
            raise CorruptBatchError(f"the header before byte {position} has no key")
        size, position = read_varint(payload, position + size)
        if size < -1:
            raise CorruptBatchError(f"the length before byte {position} is negative")
        position += max(size, 0)
    return position
