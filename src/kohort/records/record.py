"""One record inside a batch, and the payload that many of them make."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kohort.primitives.varint import VarintError, read_uvarint, read_varlong, write_varlong
from kohort.records.errors import CorruptBatchError
from kohort.records.header import BatchHeader

Header = tuple[str, bytes | None]

# Length, attributes, two deltas, two lengths and the number of headers take a byte each.
SMALLEST_RECORD = 7
TIMESTAMP_LIMIT = 1 << 63


class Record(NamedTuple):
    """A record as read. Header keys are UTF-8; other bytes in them come back as lone surrogates."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


class NewRecord(NamedTuple):
    """A record to be written; its place in the batch gives its offset."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


Fields = tuple[int, bytes | None, bytes | None, Sequence[Header]]
"""A NewRecord, or a plain tuple of the same: which the garbage collector stops looking at."""


class _Varints(dict[int, bytes]):
    """Signed integers as they are written, made once if small: that saves most of a record's time."""

    def __missing__(self, value: int) -> bytes:
        out = bytearray()
        write_varlong(out, value)
        made = bytes(out)
        if -1 <= value < _SMALL_LIMIT:
            self[value] = made
        return made


_SMALL_LIMIT = 16_384
_VARINTS = _Varints()
_NULL = _VARINTS[-1]
_ATTRIBUTES = _NO_HEADERS = b"\x00"


def encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> bytes:
    """One record with its length in front."""
    varints = _VARINTS
    body = b"".join(
        (
            _ATTRIBUTES,
            varints[timestamp_delta],
            varints[offset_delta],
            _NULL if key is None else varints[len(key)],
            key or b"",
            _NULL if value is None else varints[len(value)],
            value or b"",
            _encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    return varints[len(body)] + body


def encode_records(records: Iterable[Fields], base_timestamp: int) -> bytes:
    """Records of consecutive offsets, from the first of a batch on: as ``encode_record`` for each."""
    varints, join, null = _VARINTS, b"".join, _NULL
    parts: list[bytes] = []
    for offset_delta, (timestamp, key, value, headers) in enumerate(records):
        body = join(
            (
                _ATTRIBUTES,
                varints[timestamp - base_timestamp],
                varints[offset_delta],
                null if key is None else varints[len(key)],
                key or b"",
                null if value is None else varints[len(value)],
                value or b"",
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        parts += (varints[len(body)], body)
    return join(parts)


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [_VARINTS[len(headers)]]
    for name, value in headers:
        key = name.encode("utf-8", "surrogateescape")
        parts += (_VARINTS[len(key)], key)
        parts += (_NULL,) if value is None else (_VARINTS[len(value)], value)
    return b"".join(parts)


def decode_records(payload: bytes, header: BatchHeader) -> list[Record]:
    """All records of a payload that is not compressed (any more): exactly as many as its header says.

    Raises ``CorruptBatchError``, also when the lengths inside a record do not add up.
    """
    check_room(len(payload), header)
    try:
        records, position = _decode(payload, header)
    except (IndexError, VarintError) as error:
        raise CorruptBatchError("a record is cut off, or is not a record") from error
    if position != len(payload):
        raise CorruptBatchError(f"{len(payload) - position} bytes are left after {len(records)} records")
    return records


def check_room(size: int, header: BatchHeader) -> None:
    """Raise ``CorruptBatchError`` if ``size`` bytes leave no room for the records or their timestamps."""
    if header.records_count < 0 or header.records_count * SMALLEST_RECORD > size:
        raise CorruptBatchError(f"{size} bytes cannot hold the {header.records_count} records of the header")
    if not -TIMESTAMP_LIMIT + 64 <= header.base_timestamp < TIMESTAMP_LIMIT - 64:
        raise CorruptBatchError(f"the base timestamp {header.base_timestamp} leaves no room for deltas")


def _decode(payload: bytes, header: BatchHeader) -> tuple[list[Record], int]:  # noqa: C901 - see below
    """Records, and where they end.

    The hottest loop of reading: short integers, which most are, are read in place, and nothing is called
    for them. Positions only grow, so that one check at the end of a record covers all its lengths.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    records: list[Record] = []
    new = tuple.__new__  # half the time of calling the class
    position = 0
    for _ in range(header.records_count):
        length = payload[position]
        position += 1
        if length > 0x7F:
            if (second := payload[position]) < 0x80:
                length = length & 0x7F | second << 7
                position += 1
            else:
                length, position = read_uvarint(payload, position - 1)
        end = position + (length >> 1)
        timestamp = payload[position + 1]
        position += 2
        if timestamp > 0x7F:
            timestamp, position = _delta(payload, position - 1, base_timestamp)
        else:
            timestamp = (timestamp >> 1) ^ -(timestamp & 1)
        offset = payload[position]
        position += 1
        if offset > 0x7F:
            offset, position = read_uvarint(payload, position - 1)
        size = payload[position]
        position += 1
        if size > 0x7F:
            size, position = read_uvarint(payload, position - 1)
        key = value = None
        if not size & 1:
            key = payload[position : (position := position + (size >> 1))]
        elif size != 1:
            raise _negative_length(position)
        size = payload[position]
        position += 1
        if size > 0x7F:
            if (second := payload[position]) < 0x80:
                size = size & 0x7F | second << 7
                position += 1
            else:
                size, position = read_uvarint(payload, position - 1)
        if not size & 1:
            value = payload[position : (position := position + (size >> 1))]
        elif size != 1:
            raise _negative_length(position)
        headers: Sequence[Header] = ()
        if payload[position]:
            headers, position = _headers(payload, position, end)
        else:
            position += 1
        if position != end or length & 1:
            raise CorruptBatchError(f"the record before byte {position} should end at byte {end}")
        timestamp = base_timestamp + timestamp if append_time is None else append_time
        offset = base_offset + ((offset >> 1) ^ -(offset & 1))
        records.append(new(Record, (offset, timestamp, key, value, headers)))
    return records, position


def _delta(payload: bytes, position: int, base: int) -> tuple[int, int]:
    """A timestamp delta of more than one byte; the sum must still be a timestamp."""
    delta, position = read_varlong(payload, position)
    if not -TIMESTAMP_LIMIT <= base + delta < TIMESTAMP_LIMIT:
        raise CorruptBatchError(f"the timestamp before byte {position} does not fit 64 bits")
    return delta, position


def _negative_length(position: int) -> CorruptBatchError:
    return CorruptBatchError(f"the length before byte {position} is negative")


def _headers(payload: bytes, position: int, end: int) -> tuple[Sequence[Header], int]:
    count, position = read_uvarint(payload, position)
    # A header has two lengths at least: what cannot fit is refused before it is read.
    if count & 1 or count > end - position:
        raise CorruptBatchError(f"{end - position} bytes cannot hold the declared headers")
    headers: list[Header] = []
    for _ in range(count >> 1):
        size, position = read_uvarint(payload, position)
        if size & 1:
            raise CorruptBatchError(f"the header before byte {position} has no key")
        key = payload[position : (position := position + (size >> 1))]
        size, position = read_uvarint(payload, position)
        value = None
        if not size & 1:
            value = payload[position : (position := position + (size >> 1))]
        elif size != 1:
            raise _negative_length(position)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return headers, position
