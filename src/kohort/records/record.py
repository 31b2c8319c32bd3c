"""One record inside a batch, and the payload that many of them make."""

from collections.abc import Sequence
from typing import NamedTuple

from kohort.primitives.varint import VarintError, read_uvarint, read_varlong, write_varint, write_varlong
from kohort.records.errors import CorruptBatchError

Header = tuple[str, bytes | None]

# Length, attributes, two deltas, two lengths and the number of headers take a byte each.
SMALLEST_RECORD = 7


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


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


_SMALL_LIMIT = 1024
_SMALL = tuple(_varint(value) for value in range(_SMALL_LIMIT))  # saves half the time of a small record
_NULL = _varint(-1)
_ATTRIBUTES = _NO_HEADERS = b"\x00"


def encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> bytes:
    """One record with its length in front."""
    body = b"".join(
        (
            _ATTRIBUTES,
            _SMALL[timestamp_delta] if 0 <= timestamp_delta < _SMALL_LIMIT else _varlong(timestamp_delta),
            _SMALL[offset_delta] if 0 <= offset_delta < _SMALL_LIMIT else _varint(offset_delta),
            _NULL if key is None else _length(key),
            key or b"",
            _NULL if value is None else _length(value),
            value or b"",
            _encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    return _length(body) + body


def _length(content: bytes) -> bytes:
    length = len(content)
    return _SMALL[length] if length < _SMALL_LIMIT else _varint(length)


def _varlong(value: int) -> bytes:
    out = bytearray()
    write_varlong(out, value)
    return bytes(out)


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [_varint(len(headers))]
    for name, value in headers:
        key = name.encode("utf-8", "surrogateescape")
        parts += (_length(key), key)
        parts += (_NULL,) if value is None else (_length(value), value)
    return b"".join(parts)


class Frame(NamedTuple):
    """What the header of a batch says about its records."""

    records_count: int
    base_offset: int
    base_timestamp: int
    append_time: int | None  # if set, the timestamp of every record


def decode_records(payload: bytes, frame: Frame) -> list[Record]:
    """All records of an uncompressed payload; it must hold exactly as many as the header says.

    Raises ``CorruptBatchError``, also when the lengths inside a record do not add up.
    """
    if frame.records_count < 0 or frame.records_count * SMALLEST_RECORD > len(payload):
        raise CorruptBatchError(
            f"{len(payload)} bytes cannot hold the {frame.records_count} records of the header"
        )
    try:
        records, position = _decode(payload, frame)
    except (IndexError, VarintError) as error:
        raise CorruptBatchError("a record is cut off or not a record") from error
    if position != len(payload):
        raise CorruptBatchError(
            f"{len(payload) - position} bytes are left after {frame.records_count} records"
        )
    return records


def _decode(payload: bytes, frame: Frame) -> tuple[list[Record], int]:
    """Records, and where they end. Reads single-byte integers in place: most of them are."""
    count, base_offset, base_timestamp, append_time = frame
    records: list[Record] = []
    position = 0
    for _ in range(count):
        length = payload[position]
        position += 1
        if length > 0x7F:
            length, position = read_uvarint(payload, position - 1)
        end = position + (length >> 1)
        timestamp, position = read_varlong(payload, position + 1)
        offset = payload[position]
        position += 1
        if offset > 0x7F:
            offset, position = read_uvarint(payload, position - 1)
        key, position = _bytes(payload, position)
        value, position = _bytes(payload, position)
        headers: Sequence[Header] = ()
        if payload[position]:
            headers, position = _headers(payload, position, end)
        else:
            position += 1
        if position != end or length & 1:
            raise CorruptBatchError(f"the record before byte {position} should end at byte {end}")
        timestamp = base_timestamp + timestamp if append_time is None else append_time
        offset = base_offset + ((offset >> 1) ^ -(offset & 1))
        records.append(Record(offset, timestamp, key, value, headers))
    return records, position


def _bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    length = payload[position]
    position += 1
    if length > 0x7F:
        length, position = read_uvarint(payload, position - 1)
    if length & 1:
        if length == 1:
            return None, position
        raise CorruptBatchError(f"the length before byte {position} is negative")
    end = position + (length >> 1)
    return payload[position:end], end


def _headers(payload: bytes, position: int, end: int) -> tuple[Sequence[Header], int]:
    count, position = read_uvarint(payload, position)
    # Two lengths at least for each header: what does not fit is refused before it is read.
    if count & 1 or count > end - position:
        raise CorruptBatchError(f"{end - position} bytes cannot hold the declared headers")
    headers: list[Header] = []
    for _ in range(count >> 1):
        key, position = _bytes(payload, position)
        value, position = _bytes(payload, position)
        if key is None:
            raise CorruptBatchError(f"a header before byte {position} has no key")
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return headers, position
