"""Plain commits of ``__consumer_offsets``, taken from a batch without making records of them.

A plain commit is nearly every record there is: an offset key with a value of version 3 without metadata,
24 bytes that can be kept as they are. A log may have millions; loading it is mostly this loop.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Protocol

from kohort.model.ids import Partition
from kohort.primitives.varint import VarintError, read_uvarint
from kohort.records.errors import CorruptBatchError
from kohort.records.header import BatchHeader
from kohort.records.record import Record, check_room, decode_records

_PARTITION_SIZE = 4
_VALUE_SIZE = 24
_BEHIND_KEY = 1 + _VALUE_SIZE + 1  # length of the value, value, number of headers
_VALUE_LENGTH = _VALUE_SIZE << 1  # zig-zag
_VALUE_VERSION = 3
_LONGEST_KEY = 0x4000  # a length of more than two bytes, which no plain commit is worth


class CommitSink(Protocol):
    """Where the values of one topic in one group go."""

    def __setitem__(self, partition: Partition, value: bytes, /) -> None: ...


CommitSinks = Mapping[bytes, CommitSink | None]
"""By a key without its last four bytes, the partition."""


class _Endings(dict[int, Callable[[bytes, int], tuple[Any, ...]] | None]):
    """How to read a record from its key on, by the key's length as it is written."""

    def __missing__(self, written: int) -> Callable[[bytes, int], tuple[Any, ...]] | None:
        rest = (written >> 1) - _PARTITION_SIZE
        fits = rest >= 0 and not written & 1  # odd: a negative length
        made = self[written] = Struct(f">{rest}siB{_VALUE_SIZE}sB").unpack_from if fits else None
        return made


_ENDINGS = _Endings()


def take_commits(
    payload: bytes, header: BatchHeader, places: CommitSinks, other: Callable[[Record], None]
) -> None:
    """Put every plain commit into its place; hand any other record to ``other``. All in their order.

    A key for which ``places`` has ``None`` is left to ``other``, too. Raises ``CorruptBatchError`` for a
    payload that ``decode_records`` would refuse; what is good before that has been taken by then.
    """
    check_room(len(payload), header)
    try:
        position = _take(payload, header, places, other)
    except (IndexError, VarintError) as error:
        raise CorruptBatchError("a record is cut off, or is not a record") from error
    if position != len(payload):
        raise CorruptBatchError(
            f"{len(payload) - position} bytes are left after {header.records_count} records"
        )


def _take(payload: bytes, header: BatchHeader, places: CommitSinks, other: Callable[[Record], None]) -> int:
    """Where the records end. One loop, as in ``decode_records``: calls would cost more than what they do."""
    one, endings, whole = header._replace(records_count=1), _ENDINGS, len(payload)
    end = 0
    for _ in range(header.records_count):
        start = end
        length = payload[start]
        position = start + 1
        if length > 0x7F:
            length, position = read_uvarint(payload, start)
        end = position + (length >> 1)
        position += 2
        if payload[position - 1] < 0x80 and (  # deltas of the timestamp and of the offset
            payload[position] < 0x80 or payload[(position := position + 1)] < 0x80
        ):
            written = payload[position + 1]
            position += 2
            if written > 0x7F:
                written = written & 0x7F | payload[position] << 7
                position += 1
            if (
                end == position + (written >> 1) + _BEHIND_KEY <= whole
                and written < _LONGEST_KEY
                and not length & 1
                and (unpack := endings[written]) is not None
            ):
                beginning, partition, size, value, headers = unpack(payload, position)
                if (
                    size == _VALUE_LENGTH
                    and headers == value[0] == value[14] == value[15] == 0
                    and value[1] == _VALUE_VERSION
                    and (place := places[beginning]) is not None
                ):
                    place[partition] = value
                    continue
        other(decode_records(payload[start:end], one)[0])
    return end
